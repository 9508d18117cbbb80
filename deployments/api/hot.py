"""Keep the former import path of the hot layer valid for operators' own Ray clusters."""

from deployments.api.http.hot import middlewares as middlewares
