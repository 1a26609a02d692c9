# SPDX-License-Identifier: Apache-2.0
"""The convolution and the recurrence of a Mamba2 layer, for the plugins of engines. Rows are outputs of an engine's
input projection, with x, B and C side by side."""
import typing

from attn import linear
from attn.aiter import _common as c
from attn.attention import new_like
from attn.linear import _calls as calls
from attn.linear import _launches as launches


class Parameters(typing.NamedTuple):
    """A layer's parameters. Each call converts rate, d and dt_bias to float32 unless they have that type."""
    weight: typing.Any  # weights of the convolution [channels, taps]
    bias: typing.Any  # bias of the convolution [channels]; None: no bias
    rate: typing.Any  # A [heads] d:
    d: typing.Any  # D [heads]
    dt_bias: typing.Any  # [heads]


class Core:
    """The launches of a layer on one rank. States are in an engine's pools: convolution windows [slots, channels, taps
    - 1], and recurrent states [slots, heads, P, N]. Slots below `first_slot` are padding."""

    def __init__(self, call, kind, heads, groups, activation, first_slot):
        """`call` is the name in errors, `kind` a MambaKind. `groups` of heads share B and C."""
        self.call, self.kind, self.heads, self.groups = call, kind, heads, groups
        self.activation, self.first = activation, first_slot

    def decode(self, given, rows, dt, out, windows, states, slots, starts=None, accepted=None):
        """Runs sequences of one token, or of one token and drafts. slots [batch, tokens of a sequence] names the slot
        that gets the state after each token. rows [tokens, channels], dt [tokens, heads], out [tokens, heads * P]."""
        more = calls.there(cu_seqlens=calls.indices(starts), accepted=calls.indices(accepted))
        rows = self._convolve(given, rows, windows, slots[:, 0].contiguous(), max_seqlen=slots.shape[1], **more)
        self.recur(given, rows, dt, out, states, slots, **more)

    def recur(self, given, rows, dt, out, states, slots, parents=None, **more):
        """Runs the recurrence of decode() over convolved rows. `parents` [tokens] has the parent of each draft in its
        sequence if drafts form trees. `more` are further arguments of ssd."""
        tree = {} if parents is None else dict(tree=True)
        op = c.session(rows).op("ssd", **self._fields(), **tree)
        op(**self._tensors(given, rows, dt, out, states), state_slots=calls.indices(slots), max_seqlen=slots.shape[1],
           **calls.there(parents=parents), **more)

    def prefill(self, given, rows, dt, out, windows, states, slots, starts, has_state=None):
        """Runs prompts, or chunks of them, whose states are in slots [batch]. starts [batch + 1] are their first
        tokens. has_state [batch]: bytes, 0 for a sequence that begins in this step; None: all sequences have states."""
        slots, starts = calls.indices(slots), calls.indices(starts)
        more = dict(cu_seqlens=starts, max_seqlen=launches.longest(rows, starts), **calls.there(has_state=has_state))
        rows = self._convolve(given, rows, windows, slots, **more)
        linear._scan(c.session(rows), rows, slots.shape[0], self._fields(), dict(
            self._tensors(given, rows, dt, out, states), state_slots=slots, **more))

    def _convolve(self, given, rows, windows, slots, **more):
        """Returns the convolution of rows [tokens, channels] and updates the windows."""
        rows = calls.aligned(rows)
        out = new_like(rows, tuple(rows.shape))
        calls.convolve(self.call, rows, given.weight, given.bias, windows, calls.indices(slots), self.activation, self.first,
                       out=out, **more)
        return out

    def _fields(self):
        """Returns the fields of ssd and of ssd_prefill."""
        kind = self.kind
        return dict(dtype=kind.dtype, head_dim=kind.state, head_dim_v=kind.head_dim, heads=self.groups,
                    value_heads=self.heads, gates="softplus", act="none", state_dtype=kind.state_dtype)

    def _tensors(self, given, rows, dt, out, states):
        """Returns the arguments that ssd and ssd_prefill share. `rows` are convolved rows."""
        wide, narrow = self.heads * self.kind.head_dim, self.groups * self.kind.state
        cut = ((0, wide, self.kind.head_dim), (wide, wide + narrow, self.kind.state),
               (wide + narrow, wide + 2 * narrow, self.kind.state))
        x, b, at = (calls.columns(rows, first, end, -1, dim) for first, end, dim in cut)
        return dict(x=x, b=b, c=at, dt=dt, state=states, out=c.view(out, *x.shape), first_slot=self.first,
                    stream=c.stream(rows), **calls.given(rate=given.rate, d=given.d, dt_bias=given.dt_bias))
