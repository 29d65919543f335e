"""Hand-written word lists; every word of the corpus comes from here or from a template."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(","))


WOMEN = _words("""Anna Bella Carla Dora Elena Fiona Greta Hanna Irene Julia Karin Laura Maria Nora
Olga Paula Rosa Sofia Tina Ursula Vera Wanda Yasmin Zoe Alice Bianca Clara Diana Emma Freya""")
MEN = _words("""Adam Boris Carl David Erik Felix Georg Henry Ivan Jonas Karl Leo Martin Nils Oscar
Peter Quentin Robert Simon Thomas Ulrich Victor Walter Xavier Yusuf Zack Albert Bruno Chris
Daniel""")
FIRST = WOMEN + MEN
SURNAMES = _words("""Abbott Barlow Carver Dalton Ellison Fenwick Garner Holloway Ingram Jarvis Keller
Langley Mercer Norwood Osborne Parrish Quimby Radford Sawyer Thornton Underhill Vaughn Whitaker
Yates Zimmer Ashby Brandt Crowley Drummond Easton Falkner Granger Hartley Irwin Jennings Kendall
Lindqvist Marlowe Nash Oakes Pemberton Quill Rowland Sterling Tanner Upton Vance Weller Yarrow
Ziegler Aldrich Bishop Cobb Denham Everett Fletcher Gibbs Harmon Iverson Judd""")
PLACES = _words("""Alton Barwick Calder Dunmore Eastvale Farleigh Glenford Harrowby Ivydale Jutland
Kelso Lanark Marlow Northgate Oakham Penrith Queensby Ravenna Selby Thornbury Ulverton Verdale
Westbrook Yarmouth Zennor Ashford Brindle Corwen Dalkeith Elmstead Foxton Granby Hadleigh Inverness
Kendal Lorton Melrose Newport Otterby Pickering Redcar Stanhope Tarporley Upwell Vinely Wexford
Arden Belmont Coldwater Denby Edgemont Fernhill Greystone Hollis Kirkby Linden Milltown Norwick
Orford Pinehurst Riverton Sandown Tilbury Wakefield Amberly Birchwood Cromer Dovedale Easby
Fallbrook Grimsby Hartwell Ilkley Lowick Maplewood Netherby Ostend Plymouth Rosedale Stirling""")
PROFESSIONS = _phrases("""baker, carpenter, teacher, nurse, pilot, farmer, plumber, librarian, chef,
dentist, gardener, journalist, lawyer, mechanic, painter, photographer, police officer, firefighter,
sailor, tailor, surgeon, translator, vet, waiter, weaver, welder, zoologist, actor, architect,
astronomer, biologist, bookseller, butcher, chemist, clockmaker, coach, composer, curator, dancer,
designer, diver, driver, economist, editor, electrician, engineer, florist, geologist, goldsmith,
guide, historian, janitor, judge, locksmith, mason, midwife, miner, potter, printer, shepherd""")
AUDIENCES = _phrases("""beginners, busy parents, retired teachers, young children, night workers,
first year students, new neighbours, tired travellers, small families, older couples, shy teenagers,
weekend visitors, curious tourists, office teams, local volunteers, careful planners, impatient
learners, old friends, club members, summer guests""")
ORGANISATIONS = _phrases("""the city council, the harbour authority, the regional hospital, the
railway company, the water board, the national museum, the school district, the farmers union, the
energy agency, the port commission, the state university, the football league, the housing trust,
the food bank, the airport operator, the forest service, the public library, the transport ministry,
the steel works, the tourist office, the county court, the fire brigade, the health ministry, the
postal service, the dairy cooperative, the film institute, the weather bureau, the fishing fleet,
the zoo, the opera house, the bus operator, the central bank, the coast guard, the wine growers,
the mining company, the car maker, the charity group, the teachers council, the science academy,
the heritage fund""")
ITEMS = _words("""apples books candles pencils stamps marbles buttons cookies flowers oranges stickers
coins shells postcards muffins tickets lemons bottles badges crayons beads rocks cards tulips
eggs carrots ribbons puzzles balloons spoons cups plates pears plums mugs notebooks kites scarves
hats boxes keys tokens nails bricks tiles pots seeds melons peaches cherries""")
CONTAINERS = _words("bags boxes packs crates baskets trays jars tins sacks bundles")
ANIMALS = _words("""fox owl heron badger otter goat horse rabbit hedgehog raven lamb swan beaver
squirrel donkey turtle cat dog mouse crow""")
THINGS = _words("""lantern compass umbrella letter violin clock kettle ladder mirror basket bicycle map
suitcase telescope blanket key bell camera notebook whistle coat ring anchor statue painting boat
drum hammer bucket chest""")
ADJECTIVES = _words("""old silver broken tiny golden heavy quiet dusty bright wooden strange patient
clever gentle brave narrow red green blue pale warm cold rusty polished borrowed hidden lost painted
striped round crooked hollow soft rough""")
WEEKDAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _words("""January February March April May June July August September October November
December""")
MATERIALS = _words("""granite copper slate timber marble iron wool salt amber glass leather silk tin
clay linen paper barley honey cider wheat""")
COLOURS = _words("red blue green yellow white black orange violet grey brown")
