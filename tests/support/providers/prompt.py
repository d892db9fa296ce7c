"""A rendered prompt, and the caches that providers keep of its beginnings.

A prompt is a chain of segments in the order in which the provider reads them: tools, system text, messages. A segment
has a quarter of its characters as tokens, rounded up, so that a token never spans two segments and sums are exact.
Settings that separate cache entries are segments without tokens, in front of what they separate.
"""

import bisect
import hashlib
from collections import OrderedDict

CHARACTERS_PER_TOKEN = 4
# What is kept of earlier requests. A real server forgets too.
MAX_ENTRIES = 65536
MAX_PROMPTS = 2048
MAX_PROMPT_CHARACTERS = 64 << 20


def tokens(text):
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class Prompt:
    """Texts and their counts; `ends[i]` and `digests[i]` stand for everything up to and with segment `i`."""

    def __init__(self):
        self.texts, self.counted, self.ends, self.digests = [], [], [], []
        self._digest = hashlib.sha256()
        # How many segments the head has: model, tools and system text, by which a role is known.
        self.head = 0

    def add(self, text, counted=True):
        """Appends a segment and returns its number."""
        self.texts.append(text)
        self.counted.append(counted)
        self.ends.append(self.total() + (tokens(text) if counted else 0))
        self._digest.update(f"{len(text)}:{int(counted)}:".encode() + text.encode("utf-8", "surrogatepass"))
        self.digests.append(self._digest.hexdigest())
        return len(self.texts) - 1

    def separate(self, text):
        """Appends what separates cache entries and costs nothing."""
        return self.add(text, counted=False)

    def head_ends(self):
        self.head = len(self.texts)

    def total(self):
        return self.ends[-1] if self.ends else 0

    def role(self):
        return self.digests[self.head - 1] if self.head else ""

    def shared_tokens(self, other):
        """How many tokens both begin with."""
        shared = 0
        for text, counted, theirs, theirs_counted in zip(
            self.texts, self.counted, other.texts, other.counted, strict=False
        ):
            if text != theirs or counted != theirs_counted:
                if counted and theirs_counted:
                    same = bisect.bisect_left(
                        range(len(text)), True, key=lambda at: not theirs.startswith(text[: at + 1])
                    )
                    shared += same // CHARACTERS_PER_TOKEN
                return shared
            shared += tokens(text) if counted else 0
        return shared


class Entries:
    """Entries at marked ends: the digest of a beginning, and until when it lives."""

    def __init__(self):
        self._live = OrderedDict()

    def longest(self, prompt, candidates, now):
        """The last of the candidate segments whose beginning is kept, refreshed by this use; or None."""
        for at in sorted(candidates, reverse=True):
            entry = self._live.get(prompt.digests[at])
            if entry and entry[0] >= now:
                self._live[prompt.digests[at]] = (now + entry[1], entry[1])
                return at
        return None

    def write(self, prompt, at, ttl_s, now):
        self._live[prompt.digests[at]] = (now + ttl_s, ttl_s)
        self._live.move_to_end(prompt.digests[at])
        while len(self._live) > MAX_ENTRIES:
            self._live.popitem(last=False)


class Earlier:
    """Whole earlier prompts: the implicit caches of longest beginnings, and what a perfect cache would have had."""

    def __init__(self):
        self._prompts, self._characters = OrderedDict(), 0

    def longest(self, prompt, group=""):
        return max((prompt.shared_tokens(other) for kept, other in self._prompts.values() if kept == group), default=0)

    def add(self, prompt, group=""):
        key = (group, prompt.digests[-1])
        if key in self._prompts:
            return
        self._prompts[key] = (group, prompt)
        self._characters += sum(map(len, prompt.texts))
        while self._prompts and (len(self._prompts) > MAX_PROMPTS or self._characters > MAX_PROMPT_CHARACTERS):
            _, (_, oldest) = self._prompts.popitem(last=False)
            self._characters -= sum(map(len, oldest.texts))


class Stepped:
    """An implicit cache that reads the longest beginning of an earlier prompt in whole steps from a floor on."""

    def __init__(self):
        self._earlier = Earlier()

    def cached_tokens(self, prompt, floor, step=1):
        longest = min(self._earlier.longest(prompt), prompt.total() - 1)
        longest -= longest % step
        return longest if longest >= floor else 0

    def add(self, prompt):
        self._earlier.add(prompt)
