"""What kind of thing a question asks for, by language."""

from __future__ import annotations

import re
from collections.abc import Mapping

PATTERNS: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "en": (
        ("reason", re.compile(
            r"\bwhy\b|\bwhat (?:was|is|were) the (?:reason|cause|source)|\bwhat caused|how come\b"
            r"|for what reason", re.I)),
        ("age", re.compile(r"\bhow old\b|\bat what age\b|\bwhat age\b", re.I)),
        ("share", re.compile(
            r"\b(?:what|which) (?:share|percent\w*|proportion|fraction)|\bhow many percent", re.I)),
        ("temperature", re.compile(
            r"\b(?:what|which) (?:is |was |were )?(?:the )?(?:\w+ )?temperatures?\b|\bhow (?:warm|hot"
            r"|cold)\b", re.I)),
        ("speed", re.compile(r"\bhow fast\b|\b(?:what|which) speed|wind speed", re.I)),
        ("money", re.compile(
            r"\bhow much\b.{0,60}\b(?:cost|pay|paid|charge|spend|spent|earn|worth|money|fee|fine|price"
            r"|fund|profit|salary|donat|rais|invest)\w*|\bwhat (?:does|did|do|will|is|was"
            r"|are)\b.{0,60}\b(?:costs?|pay|paid)\b|\b(?:what|which) (?:is|was|were"
            r"|are) the (?:\w+ ){0,2}(?:price|cost|fee|fine|salary|budget|prize money|rent|fare"
            r"|value)\b(?! (?:increase|cap|rule|law|rise))|\b(?:what|which) (?:price|salary"
            r"|amount of money)\b", re.I)),
        ("many", re.compile(
            r"\bhow many\b|\b(?:what|which) (?:is |was )?(?:the )?(?:total )?number of\b", re.I)),
        ("length", re.compile(
            r"\bhow (?:tall|high|deep|far|wide|thick|large an area)\b|\bwhat (?:is|was) the (?:height"
            r"|depth|length|width|thickness|distance|diameter)", re.I)),
        ("long", re.compile(r"\bhow long\b", re.I)),
        ("weight", re.compile(r"\bhow heavy\b|\bhow much (?:does|do|did)\b.{0,40}\bweigh", re.I)),
        ("amount", re.compile(
            r"\bhow (?:much|often|large|big|strong|full|accurate)\b|\bby how much\b|\bby what margin"
            r"|\b(?:what|which) (?:\w+ )?(?:level|rate|margin|magnitude|turnout|population|capacity)\b"
            r"|\bwhat (?:is|was|were) the (?:\w+ ){0,2}(?:turnout|magnitude|population|rate|capacity"
            r"|temperature)\b", re.I)),
        ("time", re.compile(
            r"\bwhen\b|\b(?:what|which|in what|in which) (?:year|date|day|month|century|decade|time"
            r"|season)\b|\bfrom which date\b|\bsince when\b|\bhow soon\b", re.I)),
        ("person", re.compile(
            r"\bwho\b|\bwhom\b|\bwhose\b|\bwhat (?:is|was) the name of the (?:man|woman|person|president"
            r"|king|queen|author|captain|director)|\bwhich (?:man|woman|person|player|minister|president"
            r"|king|queen)\b", re.I)),
        ("place", re.compile(
            r"\bwhere\b|\b(?:which|what|in what|in which) (?:country|city|state|place|town|island"
            r"|village|region|continent|river|district)\b", re.I)),
        ("name", re.compile(
            r"\bwhat (?:is|was|are|were) (?:the |\w+ )?(?:\w+ ){0,6}(?:called|named)\b|\bwhat (?:is"
            r"|was) the name\b|\bby what name\b|\bwhat do .{1,40} call\b", re.I)),
        ("manner", re.compile(r"\bhow\b", re.I)),
        ("which", re.compile(r"\bwhich\b|\bwhat \w+s?\b", re.I)),
    ),
    "de": (
        ("reason", re.compile(
            r"\bwarum\b|\bweshalb\b|\bwieso\b|\bwas war der grund|\bwas verursachte", re.I)),
        ("age", re.compile(r"\bwie alt\b|\bin welchem alter", re.I)),
        ("share", re.compile(
            r"\bwelcher (?:anteil|prozentsatz)|\bwie viel prozent|\bwelchen (?:anteil|prozentsatz)", re.I)),
        ("temperature", re.compile(r"\bwelche temperatur|\bwie (?:warm|heiß|kalt)\b", re.I)),
        ("speed", re.compile(r"\bwie schnell\b|\bwelche geschwindigkeit", re.I)),
        ("money", re.compile(
            r"\bwie ?viel\b.{0,60}\b(?:kost|zahl|gezahlt|bezahl|verdien|geld|ausgegeben|wert)\w*"
            r"|\bwas (?:kostet|kostete|kosten)\b|\bwie hoch (?:ist|war|waren|sind) (?:der|die) (?:preis"
            r"|kosten|strafe|miete)", re.I)),
        ("many", re.compile(r"\bwie ?viele\b|\bwelche anzahl", re.I)),
        ("length", re.compile(r"\bwie (?:hoch|tief|weit|breit|dick|groß)\b", re.I)),
        ("long", re.compile(r"\bwie lang\w*\b", re.I)),
        ("amount", re.compile(r"\bwie ?viel\b|\bwie (?:oft|stark|voll)\b", re.I)),
        ("time", re.compile(
            r"\bwann\b|\b(?:in |an |seit )?welche[mnrs] (?:jahr|tag|monat|datum|jahrhundert|zeit)"
            r"|\bseit wann\b", re.I)),
        ("person", re.compile(r"\bwer\b|\bwen\b|\bwem\b|\bwessen\b", re.I)),
        ("place", re.compile(
            r"\bwo\b|\bwohin\b|\bwoher\b|\b(?:in |aus )?welche[mnrs]? (?:land|stadt|ort|staat|insel"
            r"|region)", re.I)),
        ("name", re.compile(r"\bwie (?:heißt|hieß|nennt|wird|wurde).{0,60}(?:genannt|bezeichnet)?\b", re.I)),
        ("manner", re.compile(r"\bwie\b", re.I)),
        ("which", re.compile(r"\bwelche[mnrs]?\b", re.I)),
    ),
    "es": (
        ("reason", re.compile(r"\bpor qué\b|\bcuál (?:es|fue) la (?:causa|razón)|\bqué causó", re.I)),
        ("age", re.compile(r"\bqué edad\b|\bcuántos años tiene|\ba qué edad", re.I)),
        ("share", re.compile(r"\bqué (?:porcentaje|proporción|parte)", re.I)),
        ("temperature", re.compile(r"\bqué temperatura", re.I)),
        ("speed", re.compile(r"\bqué velocidad|\ba qué velocidad", re.I)),
        ("money", re.compile(
            r"\bcuánto (?:cuesta|costó|costaba|pag\w+|gan\w+|vale|dinero|gast\w+)|\bqué precio"
            r"|\bcuál (?:es|fue) el (?:precio|coste|costo)", re.I)),
        ("many", re.compile(r"\bcuánt[oa]s\b|\bqué (?:número|cantidad)", re.I)),
        ("length", re.compile(
            r"\bqué (?:altura|profundidad|distancia|anchura|longitud)|\ba qué (?:distancia|altura"
            r"|profundidad)", re.I)),
        ("long", re.compile(r"\bcuánto (?:tiempo|dur\w+|mide)\b", re.I)),
        ("amount", re.compile(r"\bcuánt[oa]\b", re.I)),
        ("time", re.compile(
            r"\bcuándo\b|\b(?:en |a |de )?qué (?:año|fecha|día|mes|siglo|década|hora)\b", re.I)),
        ("person", re.compile(r"\bquién(?:es)?\b", re.I)),
        ("place", re.compile(
            r"\b(?:a |de |en )?dónde\b|\b(?:en )?qué (?:país|ciudad|lugar|estado|isla|región)\b", re.I)),
        ("name", re.compile(
            r"\bcómo se (?:llama|llamaba|denomina|conoce)|\bcuál (?:es|era) el nombre", re.I)),
        ("manner", re.compile(r"\bcómo\b", re.I)),
        ("which", re.compile(r"\bqué\b|\bcuál(?:es)?\b", re.I)),
    ),
    "fr": (
        ("reason", re.compile(r"\bpourquoi\b", re.I)),
        ("age", re.compile(r"\bquel âge", re.I)),
        ("share", re.compile(r"\bquel (?:pourcentage|part)|\bquelle (?:part|proportion)", re.I)),
        ("temperature", re.compile(r"\bquelle température", re.I)),
        ("money", re.compile(
            r"\bcombien (?:coûte|a coûté|coûtait|gagne|paie|vaut)|\bquel (?:est|était) le prix", re.I)),
        ("many", re.compile(r"\bcombien d", re.I)),
        ("long", re.compile(r"\bcombien de temps|\bquelle (?:durée|longueur)", re.I)),
        ("amount", re.compile(r"\bcombien\b", re.I)),
        ("time", re.compile(
            r"\bquand\b|\b(?:en )?quelle (?:année|date|époque)|\bquel (?:jour|mois|siècle)", re.I)),
        ("person", re.compile(r"\bqui\b", re.I)),
        ("place", re.compile(r"\boù\b|\b(?:dans )?quel(?:le)? (?:pays|ville|lieu|île)", re.I)),
        ("name", re.compile(r"\bcomment s'appelle|\bquel (?:est|était) le nom", re.I)),
        ("manner", re.compile(r"\bcomment\b", re.I)),
        ("which", re.compile(r"\bquel(?:le)?s?\b", re.I)),
    ),
    "it": (
        ("reason", re.compile(r"\bperché\b", re.I)),
        ("many", re.compile(r"\bquant[ie]\b", re.I)),
        ("amount", re.compile(r"\bquant[oa]\b", re.I)),
        ("time", re.compile(r"\bquando\b|in che anno", re.I)),
        ("person", re.compile(r"\bchi\b", re.I)),
        ("place", re.compile(r"\bdove\b", re.I)),
        ("manner", re.compile(r"\bcome\b", re.I)),
        ("which", re.compile(r"\bqual[ei]?\b|\bche\b", re.I)),
    ),
    "nl": (
        ("reason", re.compile(r"\bwaarom\b", re.I)),
        ("age", re.compile(r"\bhoe oud\b", re.I)),
        ("many", re.compile(r"\bhoeveel\b", re.I)),
        ("long", re.compile(r"\bhoe lang\b", re.I)),
        ("length", re.compile(r"\bhoe (?:hoog|diep|ver|breed)\b", re.I)),
        ("time", re.compile(r"\bwanneer\b|welk jaar", re.I)),
        ("person", re.compile(r"\bwie\b", re.I)),
        ("place", re.compile(r"\bwaar\b", re.I)),
        ("manner", re.compile(r"\bhoe\b", re.I)),
        ("which", re.compile(r"\bwelke?\b", re.I)),
    ),
    "pt": (
        ("reason", re.compile(r"\bpor que\b|\bporquê\b", re.I)),
        ("many", re.compile(r"\bquant[oa]s\b", re.I)),
        ("amount", re.compile(r"\bquanto\b", re.I)),
        ("time", re.compile(r"\bquando\b|que ano", re.I)),
        ("person", re.compile(r"\bquem\b", re.I)),
        ("place", re.compile(r"\bonde\b", re.I)),
        ("manner", re.compile(r"\bcomo\b", re.I)),
        ("which", re.compile(r"\bqual\b|\bquais\b", re.I)),
    ),
}  # fmt: skip
"Language -> kinds in the order they are tried."


def classify_question(question: str, language: str) -> str:
    """Say what kind of thing is asked for; empty: nothing in particular."""
    return next(
        (kind for kind, pattern in PATTERNS.get(language, PATTERNS["en"]) if pattern.search(question)), ""
    )
