"""An auth manager of Airflow with rights on single DAGs, which the one that comes with Airflow does not have."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser


class RightsByPrefix(SimpleAuthManager):
    """Whoever is no admin may read the DAGs whose ids begin with his name and a dot, and no other."""

    def is_authorized_dag(
        self, *, user: SimpleAuthManagerUser, details: DagDetails | None = None, **asked: Any
    ) -> bool:
        """Return whether the user may do that to a DAG."""
        mine = details is None or details.id is None or details.id.startswith(f"{user.username}.")
        return (user.role == "admin" or mine) and super().is_authorized_dag(user=user, details=details, **asked)
