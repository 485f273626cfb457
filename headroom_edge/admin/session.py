"""Requests of one command under one deadline: waits when the server says so, repeats what broke off, follows tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import urlsplit

from headroom_edge.admin.errors import AdminError
from headroom_edge.admin.exchange import LostError, Response, Server

BUSY: Final = frozenset({429, 502, 503, 504})
POLL_S: Final = 1.0
CANCEL_S: Final = 10.0
USUAL_WAIT_S: Final = 1.0  # where the server does not say how long
FINISHED: Final = frozenset({"done", "failed"})

Show = Callable[[str], None]


class RefusedError(AdminError):
    """The server understood the request and refused it."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(str(self.problem.get("detail") or ""))


class Session:
    def __init__(self, server: Server, *, timeout_s: float, deadline_s: float, show: Show) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._show = show
        self._end = monotonic() + deadline_s

    def text(self, path: str) -> str:
        return self._ask("GET", path).body.decode()

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The content of the response, or the result of the task that it filed.

        A repetition has the same Idempotency-Key, so the request is carried out once.
        """
        own = {"Idempotency-Key": str(uuid.uuid4()), **(headers or {})}
        response = self._ask("POST", path, body, own)
        data = response.data()
        # A 202 with a change is a proposal, which waits for people.
        return data if response.status != 202 or "change" in data else self._finished(response)

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        while True:
            try:
                response = self._server.ask(method, path, body, headers or {}, self._time_left())
            except LostError as error:
                self._wait(USUAL_WAIT_S, f"the connection broke off ({error})")
                continue
            if response.status not in BUSY:
                return self._checked(response)
            self._wait(_wait_of(response), str(response.data().get("detail") or f"the status is {response.status}"))

    def _time_left(self) -> float:
        left = self._end - monotonic()
        if left <= 0:
            raise AdminError(f"There was no answer within {self._deadline_s:g} s; try again, or raise --deadline.")
        return min(self._timeout_s, left)

    def _wait(self, seconds: float, why: str) -> None:
        if monotonic() + seconds >= self._end:
            detail = f"{self._server.url}: {why.rstrip('.')}"
            raise AdminError(f"{detail}; gave up after the deadline of {self._deadline_s:g} s. Try again later.")
        self._show(f"{why.rstrip('.')}; trying again in {seconds:g} s")
        sleep(seconds)

    def _checked(self, response: Response) -> Response:
        if 200 <= response.status < 300:
            return response
        if 300 <= response.status < 400:
            place = response.headers.get("location", "another address")
            raise AdminError(f"{self._server.url} redirects to {place}; give the URL that it leads to.")
        if "code" not in response.data():
            answer = f"{self._server.url} answers with status {response.status}"
            raise AdminError(f"{answer}, but not as Headroom's API does; correct the URL.")
        raise RefusedError(response.status, response.data())

    def _finished(self, filed: Response) -> dict[str, Any]:
        """Follows a task to its end. A task that failed is refused as the request would have been."""
        path = _path(filed.headers.get("location", ""))
        if not path:
            raise AdminError("The server files this as a task, but does not say where; is headroom-admin too old?")
        try:
            task = self._followed(path)
        except KeyboardInterrupt:
            self._cancel(path)
            raise
        result = task.get("result")
        found = result if isinstance(result, dict) else {}
        if task["state"] != "failed":
            return found
        if "code" in found:
            raise RefusedError(int(found["status"]), found)
        raise AdminError(str(task.get("problem") or "The task failed; the server's log says why."))

    def _followed(self, path: str) -> dict[str, Any]:
        shown = ""
        while (task := self._ask("GET", path).data()).get("state") not in FINISHED:
            if (progress := _progress(task)) != shown:
                self._show(shown := progress)
            self._time_left()
            sleep(POLL_S)
        return task

    def _cancel(self, path: str) -> None:
        """One try: whoever stops the command does not want to wait."""
        body = {"reason": "headroom-admin was stopped"}
        try:
            is_over = self._server.ask("POST", f"{path}/cancel", body, {}, CANCEL_S).status != 200
        except (LostError, AdminError):
            is_over = True
        self._show(f"the server may have finished the task; see {path}" if is_over else "the task was cancelled")


def _progress(task: Mapping[str, Any]) -> str:
    return f"{task.get('doing') or task.get('state') or 'waiting'}: {task.get('percent', 0)} %"


def _path(location: str) -> str:
    """Without scheme and host: the token only goes to the server that it was given for."""
    return urlsplit(location).path


def _wait_of(response: Response) -> float:
    text = response.headers.get("retry-after", "")
    return max(float(text), 0.1) if text.isdecimal() else USUAL_WAIT_S
