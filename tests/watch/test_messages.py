"""Messages for chats: within the limits that both services publish, and without effect whatever a model is called."""

import json
import re
from dataclasses import FrozenInstanceError, replace

import pytest
from markdown_it import MarkdownIt
from slack_sdk.models.blocks import Block, SectionBlock

from hf_lineage.hub.listing import Release
from hf_lineage.watch import messages
from hf_lineage.watch.ledger import Inherited
from hf_lineage.watch.messages import ERROR, VERDICT, Page, issues
from hf_lineage.watch.rendering import FORMATS, Plan, Run, planned, results
from tests import hostile
from tests.watch.test_ledger import NOON, claim, entry


def test_a_page_is_a_value():
    page = Page(("Model", VERDICT), (("fern/gated", ERROR),), ("1 model is new.",), {})
    assert page == Page(page.columns, page.rows, page.sentences, {})
    with pytest.raises(FrozenInstanceError):
        page.rows = ()


EMPTY = Run((), 0, 0, (), ())
LIAR = entry(
    "fern/li_ar", claims=(claim(verdict="UNRELATED", score=0.0123, p_value_adjusted=0.4567, inherited=Inherited(0.0)),)
)
MENTIONS = ("<!channel>", "<@U012AB3CD>", "@everyone", "<@&12345678>", "<http://evil|here>", "[here](https://evil)")
LONGEST = "x" * 95
DISCORD = {"title": 256, "description": 4096, "footer": 2048, "message": 6000}


def message(form, *entries, problems=()):
    return json.loads(FORMATS[form](results(Run(entries, 0, 0, problems, ()))))


def many(name):
    """More models with more claims than a message holds, all with names as long as they may be."""
    claims = tuple(claim(base=name, reason=f"{number}{name}" * 20, verdict="UNVERIFIABLE") for number in range(30))
    return [entry(f"{LONGEST}{number}/{LONGEST}", claims=claims) for number in range(3)]


def texts(value):
    """Every text in a message, with the kind of object that it is in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ((value.get("type"), inner),) if key == "text" and isinstance(inner, str) else texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def unescaped(text):
    """What of a text Discord may take for markup: all but what a backslash stands before."""
    return re.sub(r"\\[^0-9A-Za-z\s]", "", text)


def test_slack_shows_a_contradicted_model_with_its_address():
    said = message("slack", LIAR)
    header, total, model, context = said["blocks"]
    assert header["text"]["text"] == messages.TITLE
    assert total["text"]["text"].startswith(
        "New models: 1 (0 without a claim, 0 in error). Claims: 0 RELATED, 1 UNRELATED,"
    )
    assert model["text"]["text"] == "<https://huggingface.co/fern/li_ar|fern/li_ar>"
    assert [field["text"] for field in model["fields"]] == [
        "Verdict: UNRELATED", "Declared base: acme/base", "Score: 0.012", "Inherited: 0%", "p: 0.457"
    ]  # fmt: skip
    assert context["elements"][0]["text"].startswith("RELATED says that two models share weights by ancestry.")


def test_discord_shows_a_contradicted_model_with_its_address():
    said = message("discord", LIAR)
    (embed,) = said["embeds"]
    assert embed["color"] == messages.COLOURS[1]
    assert embed["description"].splitlines()[1] == (
        r"[fern/li\_ar](<https://huggingface.co/fern/li_ar>): UNRELATED, Declared base\: acme/base, Score\: 0\.012, "
        r"Inherited\: 0%, p\: 0\.457"
    )


@pytest.mark.parametrize("name", [*hostile.NAMES, "<" * 500, "*" * 500, "😀" * 500])
def test_slack_itself_takes_what_is_as_long_as_it_can_be(name):
    said = message("slack", *many(name), problems=tuple(f"{number}{name}" for number in range(9)))
    blocks = Block.parse_all(said["blocks"])
    assert [block.to_dict() for block in blocks], "the client of Slack checks its limits here"
    assert len(blocks) <= 50
    assert all(len(block.to_dict()["text"]["text"]) <= 3000 for block in blocks if isinstance(block, SectionBlock))
    assert len(json.dumps(said)) < 40_000
    assert "lines are left out here." in said["blocks"][1]["text"]["text"]


def test_the_client_of_slack_would_say_what_is_too_long():
    said = message("slack", LIAR)
    said["blocks"][1]["text"]["text"] = "x" * 3001
    with pytest.raises(Exception, match="3000"):
        [block.to_dict() for block in Block.parse_all(said["blocks"])]


@pytest.mark.parametrize("name", [*hostile.NAMES, "<" * 500, "*" * 500, "😀" * 500])
def test_discord_takes_what_is_as_long_as_it_can_be(name):
    said = message("discord", *many(name), problems=tuple(f"{number}{name}" for number in range(9)))
    (embed,) = said["embeds"]
    lengths = {"title": len(embed["title"]), "description": len(embed["description"].encode("utf-16-le")) // 2}
    lengths["footer"] = len(embed["footer"]["text"])
    assert all(length <= DISCORD[part] for part, length in lengths.items())
    assert sum(lengths.values()) <= DISCORD["message"]
    assert embed["description"].endswith("The rest does not fit here\\.")


@pytest.mark.parametrize("name", [*MENTIONS, *hostile.NAMES])
def test_in_slack_nothing_untrusted_is_markup(name):
    said = message("slack", entry(claims=(claim(base=name, reason=name, verdict="UNVERIFIABLE"),), error=name))
    markup = [text for kind, text in texts(said) if kind != "plain_text"]
    assert [text for text in markup if "<!" in text or "<@" in text or "evil" in text or "@everyone" in text] == []
    assert all(text.count("<") == text.count(">") <= 1 for text in markup)


@pytest.mark.parametrize("name", [*MENTIONS, *hostile.NAMES])
def test_in_discord_nothing_untrusted_is_markup_and_nobody_is_notified(name):
    said = message("discord", entry(claims=(claim(base=name, reason=name, verdict="UNVERIFIABLE"),), error=name))
    assert said["allowed_mentions"] == {"parse": []}
    links = re.compile(r"\[fern/child\]\(<https://huggingface.co/fern/child>\)")
    left = links.sub("", unescaped(said["embeds"][0]["description"]))
    assert re.findall(r"[\[\]()<>@#*_~`|]|://|www\.", left) == []


@pytest.mark.parametrize("form", ["slack", "discord"])
def test_a_message_has_no_direction_changes_or_control_characters(form):
    body = FORMATS[form](results(replace(EMPTY, entries=tuple(many(hostile.RIGHT_TO_LEFT * 9)))))
    assert hostile.RIGHT_TO_LEFT not in json.dumps(json.loads(body), ensure_ascii=False)


@pytest.mark.parametrize("form", ["slack", "discord"])
def test_a_run_without_news_and_a_plan_are_messages_too(form):
    assert "New models" in json.dumps(message(form))
    plan = Plan((Release("fern", "fern/child", "a" * 40, NOON),), 0, 0, ())
    assert "fern/child" in FORMATS[form](planned(plan))


def test_the_address_is_that_of_the_hub_that_was_asked(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.example")
    assert "<https://hub.example/fern/li_ar|fern/li_ar>" in FORMATS["slack"](results(replace(EMPTY, entries=(LIAR,))))


LIE = claim(verdict="UNRELATED", score=0.0123, p_value_adjusted=0.4567)
LONGEST_BODY = 65536
LONGEST_TITLE = 256


def test_only_what_is_contradicted_is_an_issue_whatever_else_is_claimed():
    seen = [
        entry("fern/good", claims=(claim(),)),
        entry("fern/none"),
        entry("fern/gone", error="gone"),
        entry("fern/liar", claims=(claim(), LIE)),
        entry("fern/broken", claims=(claim(verdict="UNREADABLE"), LIE)),
    ]
    assert list(issues(seen)) == [f"fern--liar--{'a' * 40}.md", f"fern--broken--{'a' * 40}.md"]


def test_an_issue_says_which_model_at_which_commit_and_how_to_check_it():
    (text,) = issues([entry("fern/liar", claims=(claim(base="acme/true"), LIE))]).values()
    title, empty, body = text.split("\n", 2)
    assert (title, empty) == ("Lineage contradicted: fern/liar @ aaaaaaaaaaaa", "")
    assert f"| acme/base | {'b' * 40} | README.md | 0.012 | – | 0.457 |" in body
    assert "acme/true" not in body
    assert "    hf-lineage check fern/child\n" in body
    assert "UNRELATED says only that the two models could be independent" in body


def test_the_title_is_the_same_whenever_the_same_commit_is_contradicted():
    first, second = (issues([entry(claims=claims)]) for claims in ((LIE,), (LIE, LIE)))
    assert [text.splitlines()[0] for text in first.values()] == [text.splitlines()[0] for text in second.values()]
    assert list(first) == list(second)


def test_it_is_never_longer_than_github_takes():
    longest = f"{'x' * 96}/{'y' * 96}"
    lie = claim(verdict="UNRELATED", base="<" * 2000, command="<" * 5000, sources=("README.md",) * 3)
    (text,) = issues([entry(longest, claims=(lie,) * 100)]).values()
    assert len(text) < LONGEST_BODY
    assert len(text.splitlines()[0]) <= LONGEST_TITLE
    assert "The ledger has 90 more." in text
    (name,) = issues([entry(longest, claims=(LIE,))])
    assert len(name) <= 255


def test_untrusted_names_are_text_and_nothing_else():
    odd = "x`|</td><script>alert(1)</script>\n# Title\n@team [a](http://evil) \u202e::error::"
    (text,) = issues(
        [entry(claims=(claim(verdict="UNRELATED", base=odd, command=f"hf-lineage check {odd}"),))]
    ).values()
    assert all(line.isprintable() for line in text.splitlines())
    tokens = [
        token
        for each in MarkdownIt("commonmark").enable("table").parse(text)
        for token in (each, *(each.children or ()))
    ]
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "heading_open", "fence", "code_inline"}
    (code,) = (token for token in tokens if token.type == "code_block")
    assert code.content.count("\n") == 1
