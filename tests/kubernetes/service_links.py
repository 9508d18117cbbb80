"""The variables that Kubernetes puts into the pods of a namespace for each of its Services."""

from __future__ import annotations


def service_links(name: str, port: int = 80, port_name: str = "http") -> dict[str, str]:
    """Return the variables for one Service, as the kubelet writes them."""
    prefix, address = name.upper().replace("-", "_"), "10.96.12.34"
    link = f"{prefix}_PORT_{port}_TCP"
    return {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(port),
        f"{prefix}_SERVICE_PORT_{port_name.upper()}": str(port),
        f"{prefix}_PORT": f"tcp://{address}:{port}",
        link: f"tcp://{address}:{port}",
        f"{link}_PROTO": "tcp",
        f"{link}_PORT": str(port),
        f"{link}_ADDR": address,
    }
