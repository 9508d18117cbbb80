"""An archive of twelve short articles, small enough to see the right passage.

river-treaty, river-flood, dam-vote      one river, three stories
harbour-strike, harbour-crane            one harbour
star-survey, beetle-count                science
cup-final, marathon                      sport
mill-closes, mill-opens                  the same mill, a year apart
fluss-vertrag                            the river treaty again, in German
"""

from __future__ import annotations

from typing import Any


def _article(
    product_id: str, day: str, title: str, *sections: tuple[str, str], **more: Any
) -> dict[str, Any]:
    return {
        "product_id": product_id,
        "type": "article",
        "title": title,
        "language": "en",
        "published_at": f"{day}T09:00:00Z",
        "authors": ["Ida Holm"],
        "url": f"https://news.example/{product_id}",
        "children": [
            {"id": f"{product_id}-{at}", "title": heading, "html": f"<h2>{heading}</h2><p>{text}</p>"}
            for at, (heading, text) in enumerate(sections, 1)
        ],
        "custom_attributes": {"licence": "CC BY 2.5"},
        **more,
    }


ARTICLES: list[dict[str, Any]] = [
    _article(
        "river-treaty", "2024-03-14", "Two countries share the River Ardle",
        ("The agreement", "Velmora and Ostrany signed a treaty in Dunmere that divides the water of the river."),
        ("The costs", "Removing silt will be paid for in proportion to the water each country takes."),
        cover_image="https://news.example/river-treaty.jpg",
    ),
    _article(
        "river-flood", "2023-11-02", "Flood on the Ardle drives families from their homes",
        ("The night", "The river rose three metres in one night and four hundred people left their houses."),
    ),
    _article(
        "dam-vote", "2022-06-20", "Parliament votes to open the Hale Dam",
        ("The vote", "By 61 votes to 48 the gates of the dam will be opened every spring."),
    ),
    _article(
        "harbour-strike", "2024-01-09", "Dockers end their strike in Port Sarrin",
        ("Back to work", "After nine days the dockers accepted shorter shifts and went back to the cranes."),
    ),
    _article(
        "harbour-crane", "2024-05-30", "Largest crane of the coast arrives",
        ("Arrival", "The crane can lift two thousand tonnes and came on a barge from the north."),
    ),
    _article(
        "star-survey", "2024-02-11", "Telescope maps a million faint galaxies",
        ("The survey", "Astronomers photographed the southern sky for six years with a single mirror."),
    ),
    _article(
        "beetle-count", "2023-07-01", "Volunteers count beetles in old orchards",
        ("Rare species", "The hermit beetle was found in eleven orchards, twice as many as before."),
    ),
    _article(
        "cup-final", "2024-05-25", "Dunmere Rovers win the cup on penalties",
        ("The match", "Goalkeeper Tamsin Orr saved two penalties and the Rovers won their first cup."),
    ),
    _article(
        "marathon", "2024-04-07", "Rain and records at the city marathon",
        ("The race", "In heavy rain the winner ran two hours and seven minutes, a record for the course."),
    ),
    _article(
        "mill-closes", "2023-02-01", "Paper mill in Carrow closes",
        ("Jobs lost", "The paper mill closed and two hundred jobs went with it."),
    ),
    _article(
        "mill-opens", "2024-02-20", "Paper mill in Carrow opens again",
        ("New owners", "The paper mill opened under new owners with ninety of the old jobs."),
    ),
    _article(
        "fluss-vertrag", "2024-03-15", "Zwei Länder teilen sich den Ardle",
        ("Der Vertrag", "Velmora und Ostrany unterzeichneten in Dunmere einen Vertrag über das Wasser des Flusses."),
        language="de", authors=["Jonas Ekdahl", "Mirela Sandoz"],
    ),
]  # fmt: skip
