"""Who performs an operation of the administration, and what that person may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.errors import Forbidden
from cluster.records.account import Account
from cluster.records.administration import APP_ROLES, AdminToken, AppRole, Way


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or program that was identified, with its rights.

    `ceiling` and `apps` are the limits of a personal token: it never allows more than its account.
    """

    username: str
    user_id: str
    way: Way
    address: str = ""
    is_administrator: bool = False
    "Administrators own every app, and the installation."
    roles: Mapping[str, AppRole] = field(default_factory=dict)
    "App -> role."
    ceiling: AppRole = "owner"
    apps: tuple[str, ...] = ()
    expires_at: int = 0
    "When the credential ends, in milliseconds since 1970; 0: it is no token."
    token_id: str = ""
    "The personal token; empty: it is none."

    def role_in(self, app_id: str) -> AppRole | None:
        """Return the role in an app, or None."""
        if self.apps and app_id not in self.apps:
            return None
        role: AppRole | None = "owner" if self.is_administrator else self.roles.get(app_id)
        if role is None:
            return None
        return min(role, self.ceiling, key=APP_ROLES.index)

    def may(self, role: AppRole, app_id: str) -> bool:
        """Return whether the principal may do what a role may do in an app; without an app, in the installation."""
        if not app_id:
            # A token that is limited to apps has no right in the installation, whoever owns it.
            return self.is_administrator and not self.apps and _allows(self.ceiling, role)
        app_role = self.role_in(app_id)
        return app_role is not None and _allows(app_role, role)

    @property
    def app_ids(self) -> tuple[str, ...] | None:
        """Return the apps in which the principal has a role; None: all of them."""
        if self.is_administrator:
            return self.apps or None
        return tuple(app_id for app_id in sorted(self.roles) if not self.apps or app_id in self.apps)

    def require(self, role: AppRole, app_id: str) -> None:
        """Refuse what the principal may not do.

        Errors:
            Forbidden: the role is not enough
        """
        if self.may(role, app_id):
            return
        if not app_id:
            raise Forbidden("this needs an administrator of the installation")
        app_role = self.role_in(app_id)
        have = f"your role in {app_id} is {app_role}" if app_role else f"you have no role in {app_id}"
        raise Forbidden(f"this needs the role {role}; {have}")


COMMAND_LINE = Principal("operator", "", "command line", is_administrator=True)
"Whoever may run commands on the server holds the master key and Redis."


def principal_of(
    account: Account, way: Way, *, address: str = "", token: AdminToken | None = None
) -> Principal:
    """Return the principal of an account that signed in, or that a token of it stands for."""
    return Principal(
        account.username,
        account.user_id,
        way,
        address=address,
        is_administrator=account.role == "administrator",
        roles=dict(account.roles),
        ceiling="owner" if token is None else token.role,
        apps=() if token is None else token.apps,
        expires_at=0 if token is None else token.expires_at,
        token_id="" if token is None else token.token_id,
    )


def _allows(role: AppRole, needed: AppRole) -> bool:
    return APP_ROLES.index(role) >= APP_ROLES.index(needed)
