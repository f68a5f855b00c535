"""Language codes as clients write them, as models write them, and their names."""

from __future__ import annotations

from collections.abc import Iterable

_TABLE = """
af Afrikaans|am Amharic|an Aragonese|ar Arabic|as Assamese|az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian
bn Bengali|bo Tibetan|br Breton|bs Bosnian|ca Catalan|ceb Cebuano|cs Czech|cy Welsh|da Danish|de German|dz Dzongkha
el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish|fo Faroese|fr French
fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gu Gujarati|ha Hausa|haw Hawaiian|he Hebrew|hi Hindi
hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian|id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese
jv Javanese|ka Georgian|kab Kabyle|kk Kazakh|km Khmer|kn Kannada|ko Korean|ku Kurdish|ky Kyrgyz|la Latin
lb Luxembourgish|lg Ganda|ln Lingala|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy|mi Maori|mk Macedonian|ml Malayalam
mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian|ne Nepali|nl Dutch|nn Norwegian Nynorsk|ny Nyanja
oc Occitan|om Oromo|or Odia|pa Punjabi|pb Portuguese (Brazil)|pl Polish|ps Pashto|pt Portuguese|qu Quechua|ro Romanian
ru Russian|rw Kinyarwanda|sa Sanskrit|sd Sindhi|se Northern Sami|si Sinhala|sk Slovak|sl Slovenian|sm Samoan|sn Shona
so Somali|sq Albanian|sr Serbian|st Southern Sotho|su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik
th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tr Turkish|tt Tatar|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese
wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|yue Cantonese|zh Chinese|zt Chinese (traditional)|zu Zulu
"""
NAMES = {code: name for code, _, name in (row.partition(" ") for row in _TABLE.replace("\n", "|").split("|")) if code}

# Other spellings of the same language: codes that were withdrawn, and those of other programs.
ALIASES = {
    "cmn": "zh",
    "fil": "tl",
    "in": "id",
    "iw": "he",
    "ji": "yi",
    "jw": "jv",
    "no": "nb",
    "pt-br": "pb",
    "zh-cn": "zh",
    "zh-hans": "zh",
    "zh-hant": "zt",
    "zh-hk": "zt",
    "zh-sg": "zh",
    "zh-tw": "zt",
}
BASES = {"pb": "pt"}  # a region with a code of its own
SHOWN = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}  # as LibreTranslate's clients expect them


def canonical_code(code: str) -> str:
    """One spelling for all: iw and he are the same, and so are PT_BR, pt-BR and pb."""
    plain = code.strip().lower().replace("_", "-")
    return ALIASES.get(plain, plain)


def without_region(code: str) -> str:
    """The language without its region: en for en-GB, pt for pb."""
    plain = canonical_code(code)
    return BASES.get(plain, plain.split("-")[0])


def find_language(code: str, known: Iterable[str]) -> str | None:
    """The known language that a client means; en-GB finds en, and en finds en-GB, when there is no better one."""
    wanted = canonical_code(code)
    exact = {canonical_code(language): language for language in known}
    near = {without_region(language): original for language, original in exact.items()}
    return exact.get(wanted) or near.get(without_region(wanted))


def client_code(code: str) -> str:
    return SHOWN.get(canonical_code(code), code)


def language_name(code: str) -> str:
    """In English; a code that nobody named stands for itself."""
    plain = canonical_code(code)
    return NAMES.get(plain) or NAMES.get(plain.split("-")[0]) or code
