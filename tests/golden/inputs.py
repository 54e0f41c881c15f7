"""Inputs that break tokenizers, by name. Plain data; the recordings are made from it, so names must stay."""

from __future__ import annotations

import random

__all__ = ["ADDED", "INPUTS"]


def _letters(count: int) -> str:
    return "".join(random.Random(4).choices("etaoinshrdlucmfwypvbgkqjxz", k=count))


INPUTS: dict[str, str] = {
    "empty": "",
    "space": " ",
    "spaces": "      ",
    "leading and trailing spaces": "   two  words   ",
    "tabs and spaces": "\tif x:\n\t    return\t\ty  \n",
    "line ends": "a\nb\r\nc\rd\n\n\ne\r\n\r\nf\n",
    "exotic spaces": "a\u00a0b\u2003c\u3000d\u202fe\u2009f\u1680g",
    "english": "The quick brown fox doesn't jump over 13 lazy dogs; it's 3.14159 o'clock, isn't it?",
    "contractions": "I'm you're he'd we'll they've can't DON'T it'S 'twas o'clock 's",
    "german": "Größere Straßenfahrzeuge überqueren möglicherweise die Brücke.",
    "french": "L'été dernier, nous avons mangé des crêpes près du château — c'était « génial » !",
    "vietnamese": "Tiếng Việt có nhiều dấu thanh: ắ ằ ẳ ẵ ặ.",
    "turkish": "İstanbul'da ılık bir gün, IĞDIR ve ığdır.",
    "russian": "Вчера мы долго гуляли по набережной и смотрели на корабли. Ёж, ещё.",
    "greek": "Η θάλασσα ήταν ήρεμη, ΟΔΥΣΣΕΥΣ και ὀδυσσεύς.",
    "japanese": "昨日は友達と一緒に山へ行きました。ｶﾀｶﾅとカタカナ、１２３。",
    "chinese": "我们昨天在公园里看见了三只白色的猫，非常可爱！“你好”，他说。",
    "korean": "어제는 비가 와서 집에서 책을 읽었습니다.",
    "hindi": "कल हमने बाज़ार से ताज़ी सब्ज़ियाँ और फल खरीदे। क्षत्रिय १२३",
    "thai": "เมื่อวานฝนตกหนักมาก เราจึงอยู่บ้าน",
    "tamil": "நேற்று மழை பெய்தது",
    "arabic": "ذهبنا أمس إلى السوق واشترينا خبزًا طازجًا. ١٢٣",
    "hebrew": "אתמול הלכנו לים, וְהָיָה נָעִים.",
    "right to left with marks": "\u202bשלום\u202c abc \u200fعربي\u200e",
    "georgian and armenian": "გამარჯობა მსოფლიო Բարեւ աշխարհ",
    "ethiopic and khmer": "ሰላም ለዓለም សួស្តី​ពិភពលោក",
    "numbers": "0 1 12 123 1234 12345 1,234,567.89 1e-10 0xFF ½ ² ① Ⅷ ٣",
    "code": 'def f(x: int) -> str:\n    """Doc."""\n    return f"{x!r:>10}"  # comment\n\n\nclass A(B):\n    pass\n',
    "c code": "for (int i = 0; i < n; ++i) {\n\t*p++ = a[i] & 0xff; /* x */\n}\n#define X(a, b) a##b\n",
    "json": '{"a": [1, 2.5, null, true], "b\\n": "\\u00e9"}\n',
    "html": '<p class="x">A &amp; B<br/>\n</p><!-- c -->',
    "url": "https://example.org/path/to?q=a%20b&c=d#e_f-g user@example.org",
    "punctuation": "!!! ??? ... --- ___ ''' \"\"\" ((([[[{{{ <<>> ;;:: @#$%^&*+=~`|\\/",
    "underscores and camels": "snake_case_name camelCaseName SCREAMING_SNAKE HTTPServer2 x1y2z3",
    "emoji": "🙂😀👍🏽 🎉🎉🎉",
    "joined emoji": "👩‍👩‍👧 🏳️‍🌈 👨🏿‍🚀 🇩🇪🇫🇷 ❤️ ❤︎ 1️⃣",
    "new emoji": "a 🫨 🫩 b",
    "composed": "Café naïve Ångström ỗ 각 が",
    "decomposed": "Cafe\u0301 nai\u0308ve A\u030angstro\u0308m o\u0302\u0303 か\u3099",
    "compatibility": "ﬁne ﬂow ①②③ ½ ℡ … ㎏ Ａｂｃ ㍿ ﷺ",
    "marks alone": "\u0301 a\u0301\u0301 \u0308",
    "zero width": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg",
    "control characters": "a\u0000b\u0001c\u0007d\u001be\u007ff\u0085g\u009fh",
    "private and unassigned": "\ue000 \U000f0000 \u0378 \ufffe \uffff \U0010ffff",
    "replacement": "\ufffd\ufffd a \ufffd",
    "metaspace": "▁a▁▁b ▁ c▁",
    "byte names": "<0x41> <0x0A> <0xZZ> <0x4> <0X41>",
    "byte-level characters": "Ġa Ċb Âł č",
    "wordpiece names": "##ing ## # a##b",
    "surrogate neighbours": "\ud7ff\ue000",
    "one letter run": "a" * 700,
    "one space run": "x" + " " * 300 + "y",
    "one line run": "x" + "\n" * 100 + "y",
    "one dash run": "-" * 333,
    "one mark run": "a" + "\u0301" * 50,
    "one emoji run": "🙂" * 60,
    "one han run": "的" * 200,
    "one digit run": "7" * 200,
    "alternating": "aA" * 100 + " a A" * 40,
    "many letters": _letters(5_000),
    "a hundred thousand letters": _letters(100_000),
    "unknown script": "𐎀𐎁𐎂 𒀀𒀁 𓀀𓀁 🜁",
    "mathematics": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β → ∑ᵢ xᵢ² 𝒜𝔅ℂ",
    "mixed": "Hello世界Привет123नमस्ते!?\n\tمرحبا_ok",
}

# Texts with the added tokens of the tokenizers that match them in text as we do, around and within words.
ADDED: dict[str, list[str]] = {
    "deepseek": [
        "<｜begin▁of▁sentence｜>Hello<｜end▁of▁sentence｜>",
        "a <｜User｜> b<｜Assistant｜>c <｜Assistant｜>",
        "<｜User<｜User｜>｜> <｜tool▁call▁begin｜>  x",
    ],
    "qwen": [
        "<|im_start|>system\nx<|im_end|>\n<|im_start|>user",
        "a <|endoftext|> b<|endoftext|>c <|im_end",
        "<|endoftext|><|endoftext|>  <|extra_0|>x",
    ],
    "minilm": ["hello [SEP] world [MASK]", "[CLS]a[SEP]b", "[cls] [UNK] [PAD]x", "a[MASK] b"],
}
