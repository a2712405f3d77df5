"""A Space: name a model and, if you like, a base, and see what the weights say."""

import checks
import gradio as gr
import guard
from gradio.utils import LRUCache
from starlette.middleware import Middleware

HEAD = """# hf-lineage
Does this model really come from the base it declares? The answer is read from the weights alone."""
FOOT = """Only public models are checked, a few at a time, each for some minutes at most; see
[hf-lineage](https://github.com/hf-lineage/hf-lineage) to check private and larger ones yourself. RELATED says that two
models share weights by ancestry. It never says who came first, who owns what, or that anyone did wrong."""
FONTS = ["system-ui", "sans-serif"]
"""No font is loaded from elsewhere."""
MOST_SESSIONS = 200
"""Visitors whose results are kept until they fetch them; Gradio would keep those of 2,000, and some of all for ever."""
READS, WRITES = rf"{guard.PAGE}|/gradio_api/queue/data", "/gradio_api/queue/join"
"""The paths that the page needs, and no others: none takes a file."""


def checked(model: str, base: str) -> str:
    """Return the report on a model in a frame, or why there is none."""
    try:
        return checks.frame(checks.page(checks.Request.of(model, base)))
    except checks.Refused as error:
        return checks.refusal(error)


def named(request: gr.Request) -> tuple[str, str]:
    """Return the names in the address, such as ?model=org/model&base=org/base, so that a card can link here."""
    return request.query_params.get("model", "")[:300], request.query_params.get("base", "")[:300]


with gr.Blocks(title="hf-lineage", analytics_enabled=False) as demo:
    gr.Markdown(HEAD)
    with gr.Row():
        model = gr.Textbox(label="Model", placeholder="org/model", max_length=300, elem_id="model")
        base = gr.Textbox(label="Base", placeholder="what the model card declares", max_length=300, elem_id="base")
    button = gr.Button("Check", variant="primary", elem_id="check")
    report = gr.HTML(elem_id="report", min_height=80)
    gr.Markdown(FOOT)
    gr.on([button.click, model.submit, base.submit], checked, [model, base], report, concurrency_limit=2)
    demo.load(named, None, [model, base])

demo.queue(max_size=20)
demo._queue.pending_messages_per_session = LRUCache(MOST_SESSIONS)
demo._queue.pending_event_ids_session = LRUCache(MOST_SESSIONS)

if __name__ == "__main__":
    demo.launch(
        theme=gr.themes.Default(font=FONTS, font_mono=["ui-monospace", "monospace"]),
        ssr_mode=False,
        run_history=False,
        footer_links=["gradio", "settings"],
        state_session_capacity=MOST_SESSIONS,
        app_kwargs={"middleware": [Middleware(guard.Guard, reads=READS, writes=WRITES)]},
    )
