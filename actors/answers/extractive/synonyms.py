"""Words that mean nearly the same in questions and in answers, by language: house-made, small and general.

One line is one family; a word may stand in several. Forms that a stemmer does not bring together (`won`, `taught`)
stand beside their stem.
"""

from __future__ import annotations

_EN = """
begin began begun start started beginning opening onset first launch launched
end ended finish finished close closed over expire stop stopped halt halted suspended ceased
open opened reopen inaugurate inaugurated opening
die died dead death deaths killed kill lives fatal casualties perish deceased
injured hurt wounded treated
win won winner beat beaten victory victor champion title defeat defeated triumph
lose lost defeat beaten loss lower
lead led head headed leader leads chief chair chaired chairman director governor president run
found founded founder founders founding establish established begin began start created set
name named call called known named title dubbed
buy bought buyer purchase purchased acquire acquired take takeover
sell sold seller sale sales
pay paid cost costs price fee fare fares charge spend spent worth fund funded money finance financed
earn earned salary pay paid wage wages income
build built construct constructed made make maker building
write wrote written writer author draft drafted
teach taught teacher learn learned coach instructor
speak spoke spoken speakers speaker talk
say said tell told think argue argued expect
live living lives resident residents inhabitants population people dwell
person people persons residents inhabitants
job work worked profession occupation employ employs employed staff living career
company firm business maker manufacturer operator
find found discover discovered discovery detect uncovered spotted noticed
find finding discovery
know known knew
steal stole stolen take took taken carry carried
give gave given hand handed donate return returned
fall fell fallen drop dropped decline declined lower lowered fewer less sink decrease reduce reduced cut cuts
rise rose risen increase increased raise raised higher grow grew grown gain more
hold held keep kept store stored
vote voted votes ballot election elected
choose chose chosen select selected pick lot drawn appoint appointed
leave left depart departed quit resign resigned resignation
come came arrive arrived reach reached
fly flew flown flight
swim swam swum
run ran runs operate operates operated
drive drove driven driver drivers
eat ate eaten food feed fed diet
drink drank drunk
sail sailed
burn burned burnt fire
catch caught
fight fought
meet met meeting session
sit sat sits member members
stand stood stands
become became becomes turn
grow grew grown
break broke broken breach breaches violate
ban banned forbid forbidden forbids prohibit prohibited illegal barred
allow allowed permit permitted may
exempt exempted exemption excluded free
tall high height heights rises above metres
long length lengths
deep depth depths
wide width across diameter
heavy weigh weighs weight weighed
far distance range away
fast speed quick quickly
warm temperature hot degrees cold
old age aged ages years
big large size largest
strong strength magnitude
cause caused causes reason because led due source origin
happen happened happens
compel force forced
share percent percentage proportion part fraction
amount quantity much
country nation state
mayor deputy
city town capital
doctor doctors physician
child children kid kids
woman women female
man men male
ill sick fell patients patient disease illness
plant planted trees tree
tree trees plantation plantations
road street route
ship ships vessel boat boats
plane planes aircraft
car cars vehicle vehicles traffic
train trains railway rail
house houses home homes
film movie
picture image photograph photo
prison jail jailed imprisoned
law act rule bill statute regulation
court judge judges ruling verdict
rule rules ruling
fine fined penalty punished
war conflict fighting
agreement treaty deal contract accord settlement
protest demonstration
storm typhoon hurricane
earthquake quake shock
rain rainfall
quick fast
participate participated part took take involved
join joined member
oppose against opposed wanted voted
support supported favour backed
plan planned intend intended proposal propose proposed
measure measured reading readings
explain explained
help helped aid
save saved rescue rescued
protect protected save saved
use used using
need needed require required
change changed
replace replaced instead
repair repaired refitted rebuilt restore restored
rebuild rebuilt
finance finances
player players
team teams club
score scored goals points
goal goals
record records
train trained trains coach
coach coached coaches trainer
captain captained skipper commands
steer steered cox steers pilot
minister ministry
chief executive ceo boss
invent invented inventor
suppose supposed
show showed shown
send sent
grandmother grandson
accurate accuracy right correct correctly
medieval old
fridge refrigerator
come came bring brought light
different difference
today now currently present
per each every
unclaimed claimed
feed eats
lure drew attract attracted
mediate mediated negotiate negotiated
bankrupt bankruptcy
surrender gave give
defend defended defense defence
color colour
center centre
locate located situated lies lie stands
contain contains include includes comprise comprised hold holds
bear born birth
marry married husband wife spouse
country countries
year years annual annually yearly
month monthly
day daily
"""
_DE = """
beginnen begann begonnen beginn anfang starten gestartet anfing eröffnet
enden endete ende beendet schluss geschlossen schloss
sterben starb gestorben tod tot tote todes umgekommen getötet
gewinnen gewann gewonnen sieger sieg siegte schlug geschlagen
verlieren verlor verloren niederlage
leiten leitet leitete geleitet leiter chef führte führt führen vorsitzende
gründen gegründet gründer gründung gründete
nennen genannt hieß heißt heißen name namens bezeichnet
kaufen kaufte gekauft erwerben erwarb erworben
verkaufen verkauft verkaufte
kosten kostet kostete preis bezahlt zahlen zahlte gezahlt geld
bauen baute gebaut erbaut errichtet bau
schreiben schrieb geschrieben autor verfasst verfasser
sprechen sprach gesprochen sagte sagen
leben lebt lebten einwohner bewohner bevölkerung menschen leute wohnen
finden fand gefunden entdeckt entdeckte entdecken entdeckung
geben gab gegeben
nehmen nahm genommen
fallen fiel gefallen sinken sank gesunken
steigen stieg gestiegen erhöht erhöhte zunahme
wählen wählte gewählt wahl
kommen kam gekommen
werden wurde geworden
liegen lag gelegen befindet befinden
groß größe
hoch höhe
lang länge
tief tiefe
alt alter
geboren geburt
ursache verursacht grund wegen weil führte
anteil prozent
land staat nation
stadt hauptstadt
jahr jahre jährlich
"""
_ES = """
empezar empezó comenzar comenzó inicio comienzo inició abrió
terminar terminó fin final acabó cerró
morir murió murieron muerte muertos murió fallecido falleció
ganar ganó ganador victoria venció derrotó
perder perdió derrota
dirigir dirige dirigió jefe líder director encabezó encabeza
fundar fundó fundado fundador fundada fundación
llamar llamado llama llamada nombre denominado
comprar compró comprado adquirió
vender vendió vendido
costar cuesta costó precio pagar pagó dinero coste
construir construyó construido construida construcción
escribir escribió escrito autor
decir dijo dice
vivir vive vivían habitantes población residentes personas gente
encontrar encontró encontrado descubrir descubrió descubierto
dar dio dado
caer cayó bajó
subir subió aumentó aumento
elegir eligió elegido elecciones
venir vino
ser fue era
nacer nació nacido
causa causó causas razón porque debido
porcentaje ciento proporción
país nación estado
ciudad capital
año años anual
"""
_FR = """
commencer commencé début ouvert ouvre
finir fini fin fermé terminé
mourir mort morts décédé tué tués
gagner gagné vainqueur victoire remporté battu
perdre perdu défaite
diriger dirige dirigé chef directeur
fonder fondé fondateur fondation créé
appeler appelé nom nommé
acheter acheté acquis
vendre vendu
coûter coûte coûté prix payer payé coût
construire construit construction bâti
écrire écrit auteur
vivre vit habitants population personnes gens
trouver trouvé découvrir découvert découverte
naître né née naissance
cause raison parce
pourcentage part
pays nation état
ville capitale
"""

SYNONYMS = {
    language: tuple(tuple(line.split()) for line in text.strip().splitlines())
    for language, text in (("en", _EN), ("de", _DE), ("es", _ES), ("fr", _FR))
}
