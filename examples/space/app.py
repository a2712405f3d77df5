"""A Space: name a model and, if you like, a base, and see what the weights say."""

import checks
import gradio as gr

HEAD = """# hf-lineage
Does this model really come from the base it declares? The answer is read from the weights alone."""
FOOT = """Only public models are checked, a few at a time, each for some minutes at most; see
[hf-lineage](https://github.com/hf-lineage/hf-lineage) to check private and larger ones yourself. RELATED says that two
models share weights by ancestry. It never says who came first, who owns what, or that anyone did wrong."""
FONTS = ["system-ui", "sans-serif"]
"""No font is loaded from elsewhere."""


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

if __name__ == "__main__":
    demo.launch(theme=gr.themes.Default(font=FONTS, font_mono=["ui-monospace", "monospace"]), ssr_mode=False)
