"""Amounts of memory as PyTorch prints them."""

from decimal import ROUND_HALF_EVEN, Decimal

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 1000, "MB": 10**6, "GB": 10**9, "TiB": 2**40}
MIB, GIB = 2**20, 2**30


def size(bytes_):
    """As PyTorch prints it: exactly 1 GiB is 1024.00 MiB."""
    if bytes_ <= 1024:
        return f"{bytes_} bytes"
    for unit in ("KiB", "MiB"):
        if bytes_ <= 1024 * UNITS[unit]:
            return f"{bytes_ / UNITS[unit]:.2f} {unit}"
    return f"{bytes_ / GIB:.2f} GiB"


def printed(text, units=UNITS):
    """The bytes of a printed amount."""
    value, unit = text.split()
    return int((Decimal(value) * units[unit]).to_integral_value(ROUND_HALF_EVEN))
