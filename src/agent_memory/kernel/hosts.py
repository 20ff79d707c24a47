"""Names and addresses of hosts."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name or numeric address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
