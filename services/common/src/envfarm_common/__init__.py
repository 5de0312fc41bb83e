"""What every service shares and no service owns: logging, gRPC, HTTP, settings, lifecycle, binaries."""
