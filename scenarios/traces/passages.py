"""Text for traces that carry only lengths, so that the model reads words: numbered windows of a few passages."""

from __future__ import annotations

from typing import Protocol

# Written for this project.
_TEXT = """
The harbour wakes before the town does. Gulls quarrel over the first crates of herring, and the ferry coughs twice
before its engine settles into a hum. On the quay a girl counts the boats that came home in the night and writes the
number on a slate, as her grandfather did. Nobody has asked for the number in years, yet everyone looks at the slate
when they pass. When the fog is thick she rings a bell, three short strokes and a long one, until the last mast has
slipped between the breakwaters.

A good loaf needs four things and patience. Mix flour, water, salt and yeast until no dry corner is left, then leave
the bowl alone under a cloth. After an hour the dough has doubled; fold it over itself like a letter and let it rest
again. A hot oven does the remainder: steam in the first ten minutes keeps the crust soft enough to rise, dry heat
afterwards makes it sing when it cools. Bread cut too early is never forgiven, though it is always eaten.

The night train leaves the capital at nine and crosses two borders before breakfast. In the third carriage a clock
maker carries a parcel on her knees, wrapped in a wool scarf. Inside is a movement no larger than a walnut, built for a
tower whose bells have been silent since the flood. She has measured every wheel twice. What she cannot measure is
whether the people below the tower still know what an hour sounds like.

Rivers do not run in straight lines because water is never patient on the inside of a bend. It slows there, drops its
sand, and hurries along the far bank, where it digs. So every curve grows, year after year, until the river finds a
shorter way and leaves the old loop behind as a quiet lake shaped like a moon. From the air a wide valley shows
hundreds of these moons, the diary of a river that kept changing its mind.

Please check the enclosed invoice for the workshop in May. Two of the six benches arrived with scratched tops, and the
lamp over the lathe flickers whenever the compressor starts. We can live with the benches, but not with the lamp. Could
you send somebody before Thursday, when the new apprentices begin? The gate is open from seven; the dog barks at
everyone and bites no one.

To find a fault in a network, begin at the end that works. Ask one machine for its own name, then for its neighbour's,
then for a name beyond the wall. The first question that goes unanswered tells you where to look. Write down what you
changed and put it back before you change something else; half of all outages that last a day were five minutes long
before someone helped. Keep the log, even when the fault turns out to be a loose cable, because next year it will be
loose again.

The lighthouse keeper's report for the month is short. Eleven ships passed in daylight and nine after dark. The lamp
used less oil than in March, since the evenings are longer. A swallow has built her nest above the door and must not be
disturbed until the young can fly, so visitors are asked to use the window. On the last Sunday the sea was so clear
that the wreck of the old schooner could be seen from the gallery, standing upright, as if she meant to sail.

Maps used to be drawn by walking. A surveyor with a chain and two assistants could cover three miles of hedges in a
day, and argued with a farmer at the end of each. Mountains were harder: you climbed one to measure the next. The
heights they wrote down, with a barometer and cold fingers, were wrong by less than a house. When satellites came, the
old numbers were corrected everywhere by a little, and nowhere by much.

In the market the melon seller knocks on every fruit and listens. A dull sound means sweet, he says, a bright one means
wait. His rival across the aisle trusts her nose, and a third sells by colour and shouts the loudest. A student once
bought one melon from each and weighed the seeds, the sugar and the water. The three agreed more often than the sellers
did, which is to say that all of them were right and none of them knew why.

Your appointment is on the second floor, at the end of the corridor with the blue doors. Bring the letter from your
doctor, the results of the blood test, and something to read, for the machine is slower than the clock. You may eat
beforehand but not drink coffee. If you feel unwell on the way, tell the person at the desk; she has been there for
twenty years and has seen everything at least twice.

The comet returned in the year when the mill burned down, so people remembered the two together, as cause and effect.
The astronomer, who had announced the comet eight years earlier, was asked politely whether he might announce something
better next time. He replied that the sky is a timetable and not a promise. Then he helped to carry stones for the new
mill, and showed the children how to see the comet's tail with one eye closed.

A chess game is lost long before the end. Somewhere in the middle a piece steps aside to make room for another, a door
stays open behind it, and nine moves later the draught arrives. Strong players do not see further than the rest of us;
they look at fewer moves and look at them longer. When a game is over they play it again, backwards, to find the door.

Sheep know the weather before the radio does. When they come down from the ridge on their own, close together and
without bleating, the shepherd brings in the washing and moves the truck away from the stream. It has rained within the
day nine times out of ten. The tenth time, she says, the sheep simply wanted company.

How do you teach a machine to read? You hide a word and ask it to guess. At first it guesses like a drunk, then like a
parrot, then, after more pages than anyone could read in a hundred lives, like somebody who was paying attention. Nobody
told it what a verb is. It found out that some words must follow others or the guess goes wrong, and kept what helped.
What it remembers of the page in front of it lies in a drawer of numbers, one slip a word, and it opens the drawer for
every new word it writes.
"""
_WORDS = _TEXT.split()
_STRIDE = 389  # coprime to the number of words, so that neighbouring numbers begin far apart


class Encoder(Protocol):
    """The part of a tokenizer that passages need."""

    def encode(self, text: str) -> list[int]: ...


def passage(encoder: Encoder, number: int, length: int) -> tuple[int, ...]:
    """Exactly `length` tokens of text. The number comes first, so that no two begin alike."""
    begin = number * _STRIDE % len(_WORDS)
    words = [_WORDS[(begin + index) % len(_WORDS)] for index in range(length)]  # a word is at least one token
    return tuple(encoder.encode(f"{number}. " + " ".join(words))[:length])
