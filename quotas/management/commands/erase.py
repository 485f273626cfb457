from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from quotas.erasure.accounts import account_erase, account_traces
from quotas.erasure.subjects import subject_erase, subject_traces
from quotas.erasure.traces import Trace
from quotas.errors import Refused
from quotas.publishing import store


class Command(BaseCommand):
    help = (
        "Erase personal data: of a subject (a user, an address: any value that services send with their checks), or of "
        "an account. With --dry-run it lists what is held and changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--subject", metavar="VALUE", help="as services send it: ann@example.com, 203.0.113.7")
        who.add_argument("--account", metavar="NAME", help="the name that the person signs in with")
        parser.add_argument("--tenant", default="", help="with --subject: of this tenant only (default: of all)")
        parser.add_argument("--reason", default="asked for on the command line", help="is kept in the audit")
        parser.add_argument("--author", default=getpass.getuser())
        parser.add_argument("--dry-run", action="store_true", help="list what is held, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["account"] is not None and options["tenant"]:
            raise CommandError("--tenant goes with --subject only; leave it out.")
        said = {"author": options["author"], "reason": options["reason"]}
        try:
            if options["account"] is not None:
                self._account(options["account"], said, is_dry=options["dry_run"])
            else:
                self._subject(options["subject"], options["tenant"], said, is_dry=options["dry_run"])
        except (Refused, store.StoreError) as error:
            raise CommandError(f"{error}.") from None

    def _account(self, name: str, said: dict[str, str], *, is_dry: bool) -> None:
        if is_dry:
            self._list("Would be erased", account_traces(name))
            return
        erased = account_erase(name=name, **said)
        self._list(f"Erased; the person is now called {erased.pseudonym}", erased.traces)
        if erased.tokens:
            tokens = ", ".join(erased.tokens)
            self.stdout.write(f"Tokens that they issued still work; revoke those that no service needs: {tokens}")

    def _subject(self, value: str, tenant: str, said: dict[str, str], *, is_dry: bool) -> None:
        with store.patiently(lambda: store.connect(settings.REDIS_URL)) as client:
            store.refuse_wrong_address(client)
            if is_dry:
                self._list("Would be erased", subject_traces(client=client, value=value, tenant=tenant))
                return
            # A failed run changes nothing in PostgreSQL, so it can be repeated.
            erased = store.patiently(lambda: subject_erase(client=client, value=value, tenant=tenant, **said))
            self._list("Erased", erased)

    def _list(self, title: str, traces: list[Trace]) -> None:
        self.stdout.write(f"{title}:")
        for trace in traces:
            self.stdout.write(str(trace))
