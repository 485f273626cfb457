"""Sessions while SECRET_KEY changes: they stay as they are, and are only signed anew."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject


class LastingSessions(AuthenticationMiddleware):
    """Django gives a session that a former SECRET_KEY signed another key, and deletes it under the one it had.

    So of two requests that a browser sends at once, one would be answered with the login page, and with a cookie that
    signs the other one out.
    """

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        if settings.SECRET_KEY_FALLBACKS:
            request.user = SimpleLazyObject(partial(_user, request))  # type: ignore[assignment] # as Django does


def _user(request: HttpRequest) -> User | AnonymousUser:
    _sign_anew(request.session)
    return get_user(request)


def _sign_anew(session: SessionBase) -> None:
    signed: str = session.get(HASH_SESSION_KEY, "")
    user = User.objects.filter(pk=session[SESSION_KEY]).first() if signed and SESSION_KEY in session else None
    if user is None or constant_time_compare(signed, user.get_session_auth_hash()):
        return
    if any(constant_time_compare(signed, former) for former in user.get_session_auth_fallback_hash()):
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
