"""Valid content, changed a little by what a `random.Random` says: values of JSON and YAML, texts, bytes, headers."""

import json
import math

NUMBERS = (
    *(0, 1, -1, 2, 3, 4, 31, 33, 48, 1024, 1025, 2**15, 2**20, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64, -(2**63)),
    *(10**30, 10**400, 10**4299),
)
FLOATS = (0.0, -0.0, 0.5, 2.0, 1e-320, 1e308, -1e308, math.inf, math.nan)
TEXTS = (
    *("", " ", "\0", "\n", "\ufeff", "\u202e", "\ud800", "\U0001f600", "\udc80", "null", "~", "..", "/", "../x", "C:x"),
    *("/etc/passwd", "a" * 300, "a/b", "a/b@main", "org/base", "{layer}", "model.layers.{layer}", "::error::x"),
    *("%s{0}", "##[error]x", "model.safetensors", "README.md", "F32", "F64", "BF16", "I8", "F8_E5M2", "mlp"),
    *("query_key", "<<", "LlamaForCausalLM", "GPT2LMHeadModel", "OPTForCausalLM", "---", "&a", "*a", "!!int", "1e999"),
    *("\x1b[2J", "1" * 40, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-02-30"),
    *("model.layers.999999.x", "h.0.x"),
)
CLASSES = ("LlamaForCausalLM", "GPT2LMHeadModel", "BertModel", "MixtralForCausalLM", "T5ForConditionalGeneration")
PIECES = (
    *(b"", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", b"[" * 2000, b"{" * 200, b'{"a":' * 2000, b"9" * 5000),
    *(b'"', b"\\ud800", b"\r", b"\n", b": ", b",", b"NaN", b"-Infinity", b"1e999", b"-0", b"}", b"]", b"null"),
)
SPELLINGS = (
    *("&a ", "*a", "!!timestamp x", "!!int x", "!!binary =", "[", "{", "]", "}", "- ", "? ", ": ", "\t", "|\n", ">\n"),
    *(",", "---\n", "...\n", "%YAML 9.9\n", "%TAG ! x\n", "#", '"', "'", "\r", "\u2028", "\x85", "\0", '"\\UFFFFFFFF"'),
    *("\n  ", "<<: *a\n", "[" * 200, "- " * 200, "&a [*a]", "\ufeff", '"\\ud83d\\ude00"'),
)


def value(random, depth=2):
    kind = random.randrange(8 if depth else 5)
    if kind < 5:
        choices = ((None, True, False), NUMBERS, FLOATS, TEXTS, CLASSES)
        return random.choice(choices[kind])
    if kind == 5:
        return {random.choice(TEXTS): value(random, depth - 1) for _ in range(random.randrange(4))}
    return [value(random, depth - 1) for _ in range(random.randrange(4))]


def changed(random, item):
    """A value in which something, however deep, was exchanged, taken out, doubled or put in."""
    if not isinstance(item, dict | list) or not item or random.randrange(5) == 0:
        return value(random)
    if isinstance(item, list):
        where, put = random.randrange(len(item)), random.randrange(4)
        middle = ([], [item[where]] * 2, [value(random)], [changed(random, item[where])])[put]
        return [*item[:where], *middle, *item[where + 1 :]]
    key, how = random.choice(list(item)), random.randrange(6)
    if how == 0:
        return {name: each for name, each in item.items() if name != key}
    if how == 1:
        return {random.choice(TEXTS) if name == key else name: each for name, each in item.items()}
    if how == 2:
        return item | {random.choice(TEXTS): value(random)}
    return item | {key: changed(random, item[key])}


def spliced(random, content):
    """Bytes cut off, doubled, or with a few of them exchanged."""
    for _ in range(random.randrange(1, 4)):
        start = random.randrange(len(content) + 1)
        stop = min(len(content), start + random.randrange(17))
        put = random.choice((*PIECES, content[start:stop] * 2, bytes([random.randrange(256)])))
        content = content[:start] + put + (b"" if random.randrange(6) == 0 else content[stop:])
    return content


def json_file(random, valid):
    """A file of JSON: a value changed, or keys doubled, or bytes changed."""
    item = valid
    for _ in range(random.randrange(3)):
        item = changed(random, item)
    content = json.dumps(item).encode()  # with what Python writes of numbers that are none
    how = random.randrange(5)
    if how == 0 and isinstance(item, dict) and item:
        again = f", {json.dumps(random.choice(list(item)))}: {json.dumps(value(random))}}}"
        return content[:-1] + again.encode()
    return spliced(random, content) if how == 1 else content


def yaml_file(random, valid):
    """A file of YAML: JSON is YAML, so values change as there; and its text changes."""
    if random.randrange(2):
        return json_file(random, valid)
    text = "".join(f"{key}: {json.dumps(item)}\n" for key, item in valid.items())
    for _ in range(random.randrange(1, 4)):
        where = random.randrange(len(text) + 1)
        text = text[:where] + random.choice(SPELLINGS) + text[where + random.randrange(3) :]
    return text.encode("utf-8", errors="surrogatepass")


def safetensors_file(random, header, data):
    """A file of safetensors: names and shapes that still fit its bytes, or a header, a length, an end that do not."""
    if random.randrange(3):
        content, data = json.dumps(fitting(random, header)).encode(), None
    else:
        content = json_file(random, header)
    lengths = (len(content),) * 9 + (0, 1, len(content) - 1, len(content) + 1, 2**40, 2**63, 2**64 - 1)
    if data is None:
        tensors = [tensor for name, tensor in json.loads(content).items() if name != "__metadata__"]
        rest = b"\0" * max((tensor["data_offsets"][1] for tensor in tensors), default=0)
    else:
        rest = random.choice((data, data, data[:-1], data + b"\0", b""))
    return max(0, random.choice(lengths)).to_bytes(8, "little") + content + rest


def fitting(random, header):
    """A header that safetensors takes, of other tensors: renamed, left out, of other shapes and formats."""
    names = [name for name in header if name != "__metadata__"]
    tensors = {name: (header[name]["dtype"], list(header[name]["shape"])) for name in names}
    for _ in range(random.randrange(1, 4)):
        name, how = random.choice(names), random.randrange(6)
        dtype, shape = tensors.pop(name, ("F32", [2]))
        if how == 0:
            continue
        if how == 1:
            others = (name + "x", name.replace("0", "7"), name.replace("model.", ""), "model." + name)
            name = random.choice((*TEXTS, *others)).encode("utf-8", errors="replace").decode()
        elif how == 2:
            dtype = random.choice(("F64", "F16", "BF16", "I8", "U8", "BOOL", "F8_E4M3", "I64"))
        elif how == 3:
            shape = shape[::-1]
        else:
            shape = [random.choice((0, 1, 2, 3, 31, 32, 33, 48, 96)) for _ in range(random.randrange(4))]
        tensors[name] = (dtype, shape)
    made, begin = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = begin + math.prod(shape) * {"F64": 8, "I64": 8, "F32": 4, "F16": 2, "BF16": 2}.get(dtype, 1)
        made[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return made
