"""A geo fence: bindings have a place and a radius, messages a place in their headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import asin, cos, radians, sin, sqrt
from numbers import Real

from embermq.plugin import Binding, ExchangeType, Message

EARTH_KM = 6371.0


def number(table: Mapping[str, object], name: str) -> float:
    value = table.get(name)
    if not isinstance(value, Real):
        raise ValueError(f"{name} is missing, or no number")
    return float(value)


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    (lat_a, lon_a), (lat_b, lon_b) = (tuple(map(radians, place)) for place in (a, b))
    half = sin((lat_b - lat_a) / 2) ** 2 + cos(lat_a) * cos(lat_b) * sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_KM * asin(sqrt(half))


class GeoFence(ExchangeType):
    name = "x-geo-fence"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.fences: dict[int, tuple[Binding, tuple[float, float], float]] = {}

    def check(self, binding: Binding) -> None:
        for name in ("latitude", "longitude", "radius-km"):
            number(binding.arguments, name)

    def bind(self, binding: Binding) -> None:
        place = (number(binding.arguments, "latitude"), number(binding.arguments, "longitude"))
        self.fences[binding.number] = (binding, place, number(binding.arguments, "radius-km"))

    def unbind(self, binding: Binding) -> None:
        del self.fences[binding.number]

    def route(self, message: Message) -> Iterable[Binding]:
        here = (number(message.headers, "latitude"), number(message.headers, "longitude"))
        for binding, place, radius_km in self.fences.values():
            if distance_km(here, place) <= radius_km:
                yield binding
