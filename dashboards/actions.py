"""What the command palette can start, according to the viewer's role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from access.roles import may
from dashboards.addresses import address
from tenants.scope import Principal


@dataclass(frozen=True, slots=True)
class Action:
    label: str
    icon: str
    url: str = ""  # url name of the page with its form; empty: it is in the shell
    also: str = ""  # other words that find it
    dialog: str = ""  # id of the dialog on that page
    needs: tuple[str, str] | None = None  # url name and method that the role must admit, if not GET of `url`
    presses: str = ""  # selector of the control in the shell
    note: str = ""

    @property
    def href(self) -> str:
        place = address(self.url) if self.url else ""
        return f"{place}#open-{self.dialog}" if self.dialog else place

    def fits(self, query: str) -> bool:
        """Every word of the query begins a word of the label or of the other names."""
        return _begin(query, f"{self.label} {self.also}")

    def is_named(self, query: str) -> bool:
        """Every word of the query begins a word of the label itself."""
        return _begin(query, self.label)

    def is_open_to(self, principal: Principal) -> bool:
        """An action whose page does not exist is open to nobody."""
        if not self.url:
            return True
        return bool(address(self.url)) and may(principal, *(self.needs or (self.url, "GET")))


def _begin(query: str, text: str) -> bool:
    names = text.casefold().split()
    return all(any(name.startswith(word) for name in names) for word in query.casefold().split())


ACTIONS: Final = (
    Action(
        "Give override",
        "clock",
        "dashboards:tenants",
        "add new raise tenant",
        needs=("dashboards:override-give", "POST"),
        note="choose the tenant",
    ),
    Action(
        "Suspend tenant",
        "ban",
        "dashboards:tenants",
        "block",
        needs=("dashboards:tenant-suspend", "POST"),
        note="choose the tenant",
    ),
    Action(
        "Set limit",
        "matrix",
        "dashboards:matrix",
        "new edit change policy rate",
        needs=("dashboards:matrix-publish", "POST"),
        note="choose tier and endpoint",
    ),
    Action("New tier", "plus", "dashboards:tier-new", "create add plan duplicate"),
    Action("New endpoint", "endpoint", "dashboards:endpoint-new", "add create register"),
    Action("Import endpoints from OpenAPI", "download", "dashboards:endpoints-import", "upload swagger paste register"),
    Action("New tenant", "tenants", "dashboards:tenant-new", "add create customer"),
    Action("Import tenants from CSV", "download", "dashboards:tenants-import", "upload many"),
    Action(
        "New policy",
        "matrix",
        "dashboards:policies",
        "add create limits global service",
        dialog="dlg-policy",
        needs=("dashboards:policy-new", "POST"),
    ),
    Action("New pool", "pool", "dashboards:pool-new", "add create share borrow lend"),
    Action("Import limits from CSV", "download", "dashboards:matrix-import", "upload sheet"),
    Action(
        "Bypass limits",
        "alert",
        "dashboards:changes",
        "emergency switch off incident",
        dialog="dlg-bypass",
        needs=("dashboards:bypass", "POST"),
    ),
    Action(
        "Freeze changes",
        "clock",
        "dashboards:settings",
        "stop holiday",
        dialog="dlg-freeze",
        needs=("dashboards:freeze", "POST"),
    ),
    Action(
        "Add alert target",
        "bell",
        "dashboards:settings",
        "new webhook mail notify",
        dialog="dlg-target",
        needs=("dashboards:alert-target-add", "POST"),
    ),
    Action(
        "Set alert threshold",
        "bell",
        "dashboards:settings",
        "rule",
        dialog="dlg-rule",
        needs=("dashboards:alert-rule", "POST"),
    ),
    Action(
        "Add a note to the charts",
        "pencil",
        "dashboards:chart-notes",
        "new annotation campaign mark",
        needs=("dashboards:chart-notes", "POST"),
    ),
    Action("Try a request", "send", "dashboards:tester", "test check explain"),
    Action("Replay traffic against other limits", "flask", "dashboards:what-if", "what-if simulate"),
    Action("Compare algorithms", "flask", "dashboards:simulator", "simulate"),
    Action("Open inbox", "inbox", "dashboards:inbox", "waiting approvals todo"),
    Action("Light or dark", "sun", presses="[data-theme-toggle]", also="theme appearance mode"),
    Action("Keyboard shortcuts", "book", presses='[data-open="dlg-keys"]', also="keys help map"),
    Action("Sign out", "out", presses="#sign-out button", also="log logout leave"),
)
