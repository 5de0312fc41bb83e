"""A dated price sheet: what a token and an hour cost, and who says so.

date = 2026-11-01
currency = "USD"
source = "our serving cost, two H100 at full load"

[policy]                  # per million tokens
prompt = 0.20
sampled = 1.60
[user]
tokens = 0.50
[judge]
tokens = 0.50
[hours]                   # per hour
environment = 0.05        # of one attempt's database and tools
training = 12.00          # of the whole training machine
"""

import datetime
from pathlib import Path

import msgspec
from envfarm.errors import ConfigError


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class PolicyPrices(_Strict, frozen=True):
    """Per million tokens."""

    prompt: float = 0.0
    sampled: float = 0.0


class TokenPrice(_Strict, frozen=True):
    """Per million tokens, in and out."""

    tokens: float = 0.0


class HourPrices(_Strict, frozen=True):
    """Per hour."""

    environment: float = 0.0
    training: float = 0.0


class PriceSheet(_Strict, frozen=True):
    """Prices as of `date`; what is not named costs nothing."""

    date: datetime.date
    currency: str
    source: str
    policy: PolicyPrices = PolicyPrices()
    user: TokenPrice = TokenPrice()
    judge: TokenPrice = TokenPrice()
    hours: HourPrices = HourPrices()

    @classmethod
    def read(cls, path: Path) -> "PriceSheet":
        """ConfigError names the file and the key that is wrong or missing."""
        try:
            sheet = msgspec.toml.decode(path.read_bytes(), type=cls)
        except FileNotFoundError as error:
            raise ConfigError(f"there is no price sheet {path}") from error
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"{path}: {error}", hint="docs/numbers.md shows a price sheet"
            ) from error
        prices = (
            sheet.policy.prompt,
            sheet.policy.sampled,
            sheet.user.tokens,
            sheet.judge.tokens,
            sheet.hours.environment,
            sheet.hours.training,
        )
        if not all(0 <= price < float("inf") for price in prices):
            raise ConfigError(f"{path}: a price is a number that is not below zero")
        return sheet
