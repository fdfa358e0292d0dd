"""What a config may say: every field that changes what is computed, with the values understood.

A field that is not named here might mean anything, so it is refused; so is one that is missing,
for its default is the class's and may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hardmax._errors import FileError

Config = dict[str, object]
Check = Callable[[object], bool]

# Of no consequence in evaluation: names, training, where a generation starts and ends, caches.
INERT = frozenset(
    [
        "architectures",
        "transformers_version",
        "_name_or_path",
        "initializer_factor",
        "initializer_range",
        "dropout_rate",
        "classifier_dropout",
        "resid_pdrop",
        "embd_pdrop",
        "attn_pdrop",
        "attention_dropout",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
        "label2id",
        "pretraining_tp",
        "num_decoder_layers",
    ]
)


def whole(config: Mapping[str, object], name: str) -> int:
    """A field that is a whole number above 0."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FileError(f"needs {name} to be a whole number above 0, but it is {value!r}.")
    return value


def number(config: Mapping[str, object], name: str) -> float:
    """A field that is a finite number from 0 on."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise FileError(f"needs {name} to be a number from 0 on, but it is {value!r}.")
    return float(value)


def check_fields(
    config: Mapping[str, object], fixed: Mapping[str, object], free: frozenset[str]
) -> None:
    """Fixed fields have their value, free ones are there, and no other one has a meaning."""
    for name, wanted in fixed.items():
        if name not in config:
            raise FileError(f"does not say {name}, which has to be {wanted!r}.")
        if config[name] != wanted or type(config[name]) is not type(wanted):
            raise FileError(
                f"says {name} = {config[name]!r}, but is understood with {wanted!r} alone."
            )
    for name in sorted(free):
        if name not in config:
            raise FileError(f"does not say {name}.")
    known = {*fixed, *free, *INERT}
    foreign = sorted(name for name in config if name not in known)
    if foreign:
        raise FileError(f"says {foreign[0]} = {config[foreign[0]]!r}, which is not understood.")
