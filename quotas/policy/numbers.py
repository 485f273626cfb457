"""Numbers of tenants, endpoints and limits as keys and accounting spell them."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def base36(number: int, width: int = 1) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text.rjust(width, "0")
