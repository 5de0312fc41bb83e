"""The demonstration: the whole chain, from nothing to a policy that got better."""
