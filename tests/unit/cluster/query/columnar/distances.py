"""Distances by the haversine formula, to check the columns against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cluster.query.columnar.point_column import EARTH_RADIUS_KM
from cluster.query.language.field_values import collect_locations


def distance_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Return the great-circle distance of two points in degrees."""
    phi, other_phi = math.radians(lat), math.radians(other_lat)
    across = math.sin(math.radians(other_lon - lon) / 2) ** 2
    haversine = math.sin((other_phi - phi) / 2) ** 2 + math.cos(phi) * math.cos(other_phi) * across
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, haversine)))


def is_within(record: Mapping[str, Any], field: str, lat: float, lon: float, radius_km: float) -> bool:
    """Tell whether any point of a record lies in the circle; a record without points never does."""
    return any(distance_km(lat, lon, *point) <= radius_km for point in collect_locations(record, field))
