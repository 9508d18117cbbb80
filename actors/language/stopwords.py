"""Stop words by language, in lower case, with their accents."""

from __future__ import annotations

_EN = """
a about above after again against all also am an and any are as at be because been before being below between
both but by can could did do does doing down during each few for from further had has have having he her here
hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off
on once only or other our ours ourselves out over own per same she should so some such than that the their theirs
them themselves then there these they this those through to too under until up upon us very was we were what when
where which while who whom whose why will with would you your yours yourself yourselves
"""
_DE = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei bin
bis bist da damit dann das dass daß dein deine deinem deinen deiner dem den denn der des dessen die dies diese
diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines einige einigem einigen einiger er
es etwas euch euer eure für gegen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem
ihren ihrer im in indem ins ist ja jede jedem jeden jeder jedes jene jenem jenen jener jenes kann kein keine keinem
keinen keiner können könnte machen man manche mein meine meinem meinen meiner mich mir mit muss musste nach nicht
nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit selbst sich sie sind so solche solchem
sollte sondern sonst um und uns unser unsere unter viel vom von vor wann war waren warst warum was weg weil weiter
welche welchem welchen welcher welches wenn wer werde werden wem wen wie wieder wieviel wieviele will wir wird wirst
wo wollen wollte worden wurde wurden würde würden zu zum zur zwar zwischen über
"""
_ES = """
a al algo algunas algunos ante antes como con contra cual cuales cuando cuanta cuantas cuanto cuantos cuál cuáles
cuándo cuánta cuántas cuánto cuántos cómo de del desde donde durante dónde e el ella ellas ellos en entre era eran
es esa esas ese eso esos esta estaba estado estar estas este esto estos está están fue fueron ha haber había han
hasta hay la las le les lo los me mi mis mucho muchos muy más mí nada ni no nos nosotros nuestra nuestro o os otra
otras otro otros para pero poco por porque que quien quienes quién quiénes qué se sea ser si sido sin sobre son su
sus suyo sí también tanto te tiene tienen toda todas todo todos tu tus tuvo un una unas uno unos y ya yo él
"""
_FR = """
à ai au aucun aussi autre aux avait avant avec avoir c ce cela ces cet cette ceux chaque ci comme comment d dans de
des dont du elle elles en encore entre es est et étaient était été être eu eux fait fut ici il ils j je l la le les
leur leurs lui m ma mais me même mes moi mon n ne ni non nos notre nous on ont ou où par parce pas peu plus pour
pourquoi quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes toi
ton tous tout toute toutes très tu un une vers vos votre vous y
"""
_IT = """
a ad agli ai al alla alle allo anche avere aveva c che chi ci come con cosa cui da dagli dai dal dalla dalle dallo
degli dei del della delle dello di dove e è ed era erano essere fra furono gli ha hanno ho i il in io l la le lei li
lo loro lui ma me mi mia mio ne negli nei nel nella nelle nello no noi non nostro o per perché però più poi qual
quale quali quando quanti quanto quella quelle quelli quello questa queste questi questo qui sarà se sei si sia sono
stata stati stato su sua sue sugli sui sul sulla sulle suo suoi te tra tu tutti tutto un una uno vi voi
"""
_NL = """
aan al alle als bij dan dat de der deze die dit door een en er geen had hadden hebben heeft het hier hij hoe hun ik
in is ja je kan kon maar me meer men met mij mijn na naar niet niets nog nu of om omdat onder ons ook op over reeds
te tegen toch toen tot u uit uw van veel voor waar waarom wanneer waren was wat we welke werd wezen wie wij wil
worden wordt ze zelf zich zij zijn zo zonder zou
"""
_PT = """
a ao aos as até com como da das de dela dele deles do dos e é ela elas ele eles em entre era eram essa esse esta está
este eu foi foram há isso isto já lhe mais mas me mesmo meu minha muito na nas nem no nos nós não o onde os ou para
pela pelas pelo pelos por porque qual quais quando quanto que quem se sem ser seu seus só sua suas são também te tem
tinha um uma você à às
"""

STOP_WORDS = {
    language: frozenset(text.split())
    for language, text in (
        ("en", _EN),
        ("de", _DE),
        ("es", _ES),
        ("fr", _FR),
        ("it", _IT),
        ("nl", _NL),
        ("pt", _PT),
    )
}
