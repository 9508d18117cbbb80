"""Keep the former import path of the hot layer valid for Ray clusters that operators run."""

from deployments.api.http.hot import middlewares as middlewares
