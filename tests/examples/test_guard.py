"""What stands before the examples that answer everybody, request by request, and what they keep on disk."""

import asyncio
import importlib.util
import threading

import pytest

from tests.github import ROOT

FILE = ROOT / "examples/space/guard.py"
SECRET = "a secret of the webhook"


@pytest.fixture
def guard():
    spec = importlib.util.spec_from_file_location("guard", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_space_and_the_receiver_have_the_same_guard():
    assert FILE.read_bytes() == (ROOT / "examples/webhook/guard.py").read_bytes()


class Visitor:
    """Somebody who sends requests to a guarded server that answers every request with what it was sent."""

    def __init__(self, guard, secret="", status=200):
        self.guarded = guard.Guard(self.echo, reads="/|/static/.*", writes="/join", secret=secret)
        self.status, self.reached, self.taken = status, [], 0

    async def echo(self, scope, receive, send):
        body = (await receive()).get("body") if scope["type"] == "http" else None
        self.reached.append(body)
        if self.status is None:
            raise KeyError(body)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"you said " + (body or b"")})

    def ask(self, method="POST", path="/join", parts=(b"{}",), kind="http", **headers):
        """The status and the body of the answer; `taken` tells how many parts of the body were read."""
        return asyncio.run(self.asking(method, path, parts, kind, **headers))

    async def asking(self, method="POST", path="/join", parts=(b"{}",), kind="http", **headers):
        sent, left = [], list(parts)

        async def receive():
            if not left:
                await asyncio.sleep(60)
            self.taken += 1
            part = left.pop(0)
            return part if isinstance(part, dict) else {"type": "http.request", "body": part, "more_body": bool(left)}

        async def send(message):
            sent.append(message)

        lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self.guarded({"type": kind, "method": method, "path": path, "headers": lines}, receive, send)
        bodies = b"".join(message.get("body", b"") for message in sent)
        return (sent[0].get("status", sent[0]["type"]) if sent else None), bodies


class TestPaths:
    @pytest.mark.parametrize(
        ("method", "path"),
        [("POST", "/upload"), ("POST", "/gradio_api/upload"), ("POST", "/"), ("GET", "/join"), ("PUT", "/join"),
         ("POST", "/join/"), ("POST", "/join\n"), ("DELETE", "/"), ("OPTIONS", "/"), ("GET", "/file=/etc/passwd")],
    )  # fmt: skip
    def test_what_is_not_named_is_not_there_and_none_of_its_body_is_read(self, guard, method, path):
        visitor = Visitor(guard)
        status, body = visitor.ask(method, path, [b"x" * 10**6])
        assert (status, body) == (404, b'{"error": "there is nothing here"}')
        assert (visitor.taken, visitor.reached) == (0, [])

    @pytest.mark.parametrize(("method", "path"), [("POST", "/join"), ("GET", "/"), ("HEAD", "/"), ("GET", "/static/a")])
    def test_what_is_named_comes_through_with_its_whole_body(self, guard, method, path):
        assert Visitor(guard).ask(method, path, [b"a", b"", b"b"]) == (200, b"you said ab")

    def test_no_socket_is_opened(self, guard):
        visitor = Visitor(guard)
        assert visitor.ask(kind="websocket")[0] == "websocket.close"
        assert visitor.reached == []

    def test_the_server_may_start(self, guard):
        visitor = Visitor(guard)
        visitor.ask(kind="lifespan")
        assert visitor.reached == [None]


class TestSecret:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [({}, 401), ({"x_webhook_secret": ""}, 403), ({"x_webhook_secret": SECRET[:-1]}, 403),
         ({"x_webhook_secret": "ünlike"}, 403)],
    )  # fmt: skip
    def test_who_does_not_know_it_is_answered_before_the_body_is_read(self, guard, headers, status):
        visitor = Visitor(guard, SECRET)
        assert visitor.ask(content_length=str(10**9), **headers)[0] == status
        assert (visitor.taken, visitor.reached) == (0, [])

    def test_who_knows_it_comes_through_and_nobody_needs_it_to_see_the_page(self, guard):
        assert Visitor(guard, SECRET).ask(x_webhook_secret=SECRET)[0] == 200
        assert Visitor(guard, SECRET).ask("GET", "/")[0] == 200


class TestBodies:
    def test_one_that_says_that_it_is_too_large_is_not_read(self, guard):
        visitor = Visitor(guard)
        assert visitor.ask(content_length=str(guard.LARGEST_BODY + 1))[0] == 413
        assert (visitor.taken, visitor.reached) == (0, [])

    def test_one_that_does_not_say_so_is_read_up_to_the_limit(self, guard):
        visitor = Visitor(guard)
        assert visitor.ask(parts=[b"x" * 1000] * 10**4)[0] == 413
        assert (visitor.taken, visitor.reached) == (guard.LARGEST_BODY // 1000 + 1, [])

    def test_one_as_large_as_is_allowed_comes_through(self, guard):
        size = guard.LARGEST_BODY
        assert Visitor(guard).ask(parts=[b"x" * size], content_length=str(size))[1] == b"you said " + b"x" * size

    def test_one_that_never_ends_is_not_waited_for(self, guard, monkeypatch):
        monkeypatch.setattr(guard, "SECONDS", 0.1)
        unfinished = {"type": "http.request", "body": b"x", "more_body": True}
        visitor = Visitor(guard)
        assert visitor.ask(parts=[unfinished])[0] == 408
        assert visitor.reached == []

    def test_of_somebody_who_has_gone_nothing_is_done(self, guard):
        visitor = Visitor(guard)
        assert visitor.ask(parts=[{"type": "http.disconnect"}]) == (None, b"")
        assert visitor.reached == []

    def test_so_many_at_once_are_answered_and_no_more_until_one_has_ended(self, guard, monkeypatch):
        monkeypatch.setattr(guard, "MOST_OPEN", 3)
        monkeypatch.setattr(guard, "SECONDS", 0.3)
        visitor, unfinished = Visitor(guard), {"type": "http.request", "body": b"", "more_body": True}

        async def together():
            slow = [asyncio.create_task(visitor.asking(parts=[unfinished])) for _ in range(3)]
            await asyncio.sleep(0.1)
            return (await visitor.asking())[0], [status for status, _ in await asyncio.gather(*slow)]

        assert asyncio.run(together()) == (503, [408] * 3)
        assert visitor.ask()[0] == 200


@pytest.mark.parametrize("status", [400, 422, 500])
def test_no_answer_to_an_error_has_anything_of_the_request(guard, status):
    answer = Visitor(guard, status=status).ask(parts=[b"<script>"])
    assert answer == (status, b'{"error": "this cannot be answered"}')


def test_an_error_of_the_server_is_one_line_of_the_log(guard, capsys):
    """A trace of each would be some thousands of bytes for a request of a hundred."""
    visitor = Visitor(guard, status=None)
    assert visitor.ask() == (500, b'{"error": "this cannot be answered"}')
    assert capsys.readouterr().err == "a request ended with KeyError\n"


class TestPrune:
    def test_files_are_removed_beside_others_that_write_rename_and_remove(self, guard, tmp_path):
        """Signatures are written under another name first, and another check prunes at the same time."""
        end, errors = threading.Event(), []

        def write(number):
            while not end.is_set():
                for file in (tmp_path / f"{number}-{index}" for index in range(40)):
                    file.write_bytes(bytes(10))
                    file.rename(file.with_suffix(".sig")).unlink(missing_ok=True)

        def prune():
            try:
                for _ in range(300):
                    guard.prune(tmp_path, 50)
            except OSError as error:
                errors.append(error)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        others = [threading.Thread(target=prune) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        end.set()
        for writer in writers:
            writer.join()
        assert errors == []

    def test_links_are_counted_and_removed_and_never_followed(self, guard, tmp_path):
        (tmp_path / "elsewhere").write_bytes(bytes(10**4))
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/link").symlink_to(tmp_path / "elsewhere")
        guard.prune(tmp_path / "kept", 5000)
        assert (tmp_path / "kept/link").is_symlink()
        guard.prune(tmp_path / "kept", 0)
        assert [file.name for file in (tmp_path / "kept").iterdir()] == []
        assert (tmp_path / "elsewhere").stat().st_size == 10**4

    def test_a_folder_that_is_not_there_has_nothing(self, guard, tmp_path):
        guard.prune(tmp_path / "nowhere", 0)
