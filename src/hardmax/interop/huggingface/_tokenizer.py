"""The tokenizer of an alphabet: a table of words, as the library `tokenizers` stores it.

Where all symbols are single characters, a word is written without spaces and split at every
character; otherwise symbols stand apart by spaces. A symbol that is not in the alphabet has no
identity, and the library says so. A start token is put in front by the tokenizer itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from hardmax._errors import FileError, RequestError
from hardmax.interop.huggingface._home import PAD, START, Ids

_INERT = {"version", "truncation", "padding", "decoder"}  # what no identity depends on
_SETTINGS_INERT = {"backend", "is_local", "local_files_only", "clean_up_tokenization_spaces"}
_CLASS = "PreTrainedTokenizerFast"
_SETTINGS_ALIKE: dict[str, tuple[object, ...]] = {  # values that mean the same
    "tokenizer_class": (_CLASS, "TokenizersBackend"),
    "padding_side": (None, "right"),
    "extra_special_tokens": (None, [], {}),
}


def by_characters(ids: Ids) -> bool:
    """Whether words are written without spaces."""
    return all(len(text) == 1 and not text.isspace() for text in ids.symbols)


def tokenizer_files(ids: Ids, tokens: int) -> tuple[dict[str, object], dict[str, object]]:
    """What tokenizer.json and tokenizer_config.json say."""
    spoilt = [text for text in ids.symbols if not text or text.split() != [text]]
    if spoilt:
        raise RequestError(
            f"The symbol {spoilt[0]!r} is empty or holds a space, and a tokenizer splits words "
            f"there: give the symbol another name."
        )
    if by_characters(ids) and set(START + PAD) <= {*ids.symbols}:
        raise RequestError(
            f"Symbols that spell {START} would be read as the start: leave one of them out."
        )
    settings: dict[str, object] = {
        "tokenizer_class": _CLASS,
        "model_max_length": tokens,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if ids.started:
        settings["bos_token"] = START
    return _tokenizer(ids), settings


def check_tokenizer(
    tokenizer: Mapping[str, object], settings: Mapping[str, object], ids: Ids, tokens: int
) -> None:
    """The files of a tokenizer that maps exactly this alphabet to these identities."""
    wanted, wanted_settings = tokenizer_files(ids, tokens)
    for name in sorted({*wanted, *tokenizer} - _INERT):
        if tokenizer.get(name) != wanted.get(name):
            raise FileError(
                f"is not the tokenizer of this alphabet: its {name} is another one, and the rows "
                f"of the embedding would mean other symbols."
            )
    if tokenizer.get("truncation") is not None or tokenizer.get("padding") is not None:
        raise FileError("cuts or pads words by itself, which the model was not made for.")
    for name in sorted({*wanted_settings, *settings} - _SETTINGS_INERT):
        alike = _SETTINGS_ALIKE.get(name, (wanted_settings.get(name),))
        if settings.get(name) not in alike:
            raise FileError(
                f"is not the tokenizer of this alphabet: its settings say {name} = "
                f"{settings.get(name)!r}."
            )


def _tokenizer(ids: Ids) -> dict[str, object]:
    split: dict[str, object] = {"type": "WhitespaceSplit"}
    if by_characters(ids):
        pattern = {"Regex": r"[\s\S]"}
        split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    special = [(PAD, ids.pad)] + ([] if ids.start is None else [(START, ids.start)])
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(text, number) for text, number in special],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None if ids.start is None else _starting(ids.start),
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {text: number for number, text in enumerate(ids.tokens)},
            "unk_token": "<unk>",  # which is not in the vocabulary: foreign symbols are errors
        },
    }


def _added(text: str, number: int) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, **flags, "special": True}


def _starting(number: int) -> dict[str, object]:
    start = {"SpecialToken": {"id": START, "type_id": 0}}
    first, second = ({"Sequence": {"id": one, "type_id": i}} for i, one in enumerate("AB"))
    special = {START: {"id": START, "ids": [number], "tokens": [START]}}
    return {
        "type": "TemplateProcessing",
        "single": [start, first],
        "pair": [start, first, second],
        "special_tokens": special,
    }
