"""Fixed pairs (news wording, summary wording) for the news family."""

from __future__ import annotations


def _table(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [line.split(" > ") for line in text.strip().splitlines()]
    return tuple((left.strip(), right.strip()) for left, right in pairs)


PLANS = _table("""
announced that it would > plans to
confirmed that it will soon > is about to
decided after a long debate to > agreed to
told reporters that it intends to > wants to
promised to > has pledged to
said it was ready to > is prepared to
signed a contract to > is bound to
voted by a narrow margin to > has chosen to
revealed a secret plan to > secretly prepared to
admitted that it had to > is forced to
""")
PROJECTS = _table("""
build a new bridge > put up another crossing
close three old schools > shut ageing classrooms
hire more drivers > take on extra staff
repair the main square > fix the town centre
plant trees along the road > make the streets greener
open a night market > start evening sales
test electric buses > try out clean transport
move its offices > change its address
sell the old theatre > give up the stage
restore the lighthouse > save a landmark
raise ticket prices > make travel dearer
cut opening hours > shorten its days
train young nurses > educate care workers
dig a deeper channel > make way for large ships
protect the wetlands > guard rare birds
replace all street lamps > renew the lighting
ban fireworks > forbid noisy rockets
share its data > publish its figures
invite foreign teams > welcome guests from abroad
rebuild the flooded station > bring back the terminal
""")
CHANGES = _table("""
rose by > went up by
fell by > dropped by
jumped by > climbed sharply by
shrank by > became smaller by
increased by > grew by
declined by > sank by
was reduced by > was cut by
was expanded by > was widened by
improved by > got better by
slipped by > lost ground by
""")
MEASURES = _table("""
the number of visitors > attendance
the cost of repairs > the repair bill
the amount of waste > rubbish
the average income > pay
the demand for housing > the need for homes
the number of accidents > crash figures
the price of fuel > petrol costs
the time spent waiting > delays
the volume of trade > business
the number of complaints > criticism
""")
QUOTES = _table("""
we cannot wait any longer > time was running out
this is a great day for all of us > it was cause for joy
nobody asked the people who live here > residents had been ignored
the money is simply not there > funds were missing
I have never seen anything like it > the event was unique
our children deserve better > young people had been let down
the work will begin on time > there would be no delay
we made mistakes and we will learn > errors had been made
the risk is far too high > it was dangerous
every family will feel the difference > households would benefit
this plan has no future > the idea was hopeless
we owe it to the next generation > it was a duty
the numbers speak for themselves > the data were clear
it was a decision of the heart > feelings had played a part
safety comes before profit > security mattered most
there is no reason to panic > people should stay calm
""")
DISPUTES = _table("""
criticised the timetable > is unhappy about the dates
called for a public vote > demands a ballot
collected signatures against it > started a petition
warned of higher taxes > fears new charges
praised the idea > supports it
offered to help with money > wants to donate
asked a judge to step in > has gone to court
demanded more information > seeks details
refused to comment > stays silent
proposed a smaller version > prefers a modest scheme
threatened to leave > may walk away
welcomed the news > is pleased
""")
