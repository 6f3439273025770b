// SPDX-License-Identifier: Apache-2.0

package record

// JSON methods of records, also for package encoding/json.

// AppendJSON appends the trace as an object of JSON.
func (r *Trace) AppendJSON(b []byte) []byte { return traces.appendJSON(b, KindTrace, r) }

// MarshalJSON is [Trace.AppendJSON].
func (r Trace) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (r *Trace) UnmarshalJSON(b []byte) error { return traces.parseJSON(r, b) }

// AppendJSON appends the postcard as an object of JSON.
func (p *Postcard) AppendJSON(b []byte) []byte { return postcards.appendJSON(b, KindPostcard, p) }

// MarshalJSON is [Postcard.AppendJSON].
func (p Postcard) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (p *Postcard) UnmarshalJSON(b []byte) error { return postcards.parseJSON(p, b) }

// AppendJSON appends the flow as an object of JSON.
func (f *Flow) AppendJSON(b []byte) []byte { return flows.appendJSON(b, KindFlow, f) }

// MarshalJSON is [Flow.AppendJSON].
func (f Flow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (f *Flow) UnmarshalJSON(b []byte) error { return flows.parseJSON(f, b) }

// AppendJSON appends the loss as an object of JSON.
func (l *Loss) AppendJSON(b []byte) []byte { return blockLosses.appendJSON(b, KindLoss, l) }

// MarshalJSON is [Loss.AppendJSON].
func (l Loss) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (l *Loss) UnmarshalJSON(b []byte) error { return blockLosses.parseJSON(l, b) }

// AppendJSON appends the delay as an object of JSON.
func (d *Delay) AppendJSON(b []byte) []byte { return pathDelays.appendJSON(b, KindDelay, d) }

// MarshalJSON is [Delay.AppendJSON].
func (d Delay) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (d *Delay) UnmarshalJSON(b []byte) error { return pathDelays.parseJSON(d, b) }

// AppendJSON appends the path as an object of JSON.
func (p *Path) AppendJSON(b []byte) []byte { return paths.appendJSON(b, KindPath, p) }

// MarshalJSON is [Path.AppendJSON].
func (p Path) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (p *Path) UnmarshalJSON(b []byte) error { return paths.parseJSON(p, b) }

// AppendJSON appends the option as an object of JSON.
func (t *Trigger) AppendJSON(b []byte) []byte { return triggers.appendJSON(b, KindTrigger, t) }

// MarshalJSON is [Trigger.AppendJSON].
func (t Trigger) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (t *Trigger) UnmarshalJSON(b []byte) error { return triggers.parseJSON(t, b) }

// AppendJSON appends the option as an object of JSON.
func (e *EdgeToEdge) AppendJSON(b []byte) []byte { return edges.appendJSON(b, KindEdgeToEdge, e) }

// MarshalJSON is [EdgeToEdge.AppendJSON].
func (e EdgeToEdge) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (e *EdgeToEdge) UnmarshalJSON(b []byte) error { return edges.parseJSON(e, b) }

// AppendJSON appends the record as an object of JSON.
func (o *Other) AppendJSON(b []byte) []byte { return others.appendJSON(b, o.Kind(), o) }

// MarshalJSON is [Other.AppendJSON].
func (o Other) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (o *Other) UnmarshalJSON(b []byte) error { return others.parseJSON(o, b) }

// AppendJSON appends the number as an object of JSON.
func (l *Lost) AppendJSON(b []byte) []byte { return losses.appendJSON(b, KindLost, l) }

// MarshalJSON is [Lost.AppendJSON].
func (l Lost) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (l *Lost) UnmarshalJSON(b []byte) error { return losses.parseJSON(l, b) }

// AppendJSON appends the counters as an object of JSON.
func (s *Statistics) AppendJSON(b []byte) []byte { return statistics.appendJSON(b, KindStatistics, s) }

// MarshalJSON is [Statistics.AppendJSON].
func (s Statistics) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (s *Statistics) UnmarshalJSON(b []byte) error { return statistics.parseJSON(s, b) }

// AppendJSON appends the warning as an object of JSON.
func (w *Warning) AppendJSON(b []byte) []byte { return warnings.appendJSON(b, KindWarning, w) }

// MarshalJSON is [Warning.AppendJSON].
func (w Warning) MarshalJSON() ([]byte, error) { return w.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (w *Warning) UnmarshalJSON(b []byte) error { return warnings.parseJSON(w, b) }

// AppendJSON appends the flow as an object of JSON.
func (f *EdgeFlow) AppendJSON(b []byte) []byte { return edgeFlows.appendJSON(b, KindEdgeFlow, f) }

// MarshalJSON is [EdgeFlow.AppendJSON].
func (f EdgeFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (f *EdgeFlow) UnmarshalJSON(b []byte) error { return edgeFlows.parseJSON(f, b) }

// AppendJSON appends the block as an object of JSON.
func (c *Block) AppendJSON(b []byte) []byte { return blocks.appendJSON(b, KindBlock, c) }

// MarshalJSON is [Block.AppendJSON].
func (c Block) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// UnmarshalJSON reads what AppendJSON writes.
func (c *Block) UnmarshalJSON(b []byte) error { return blocks.parseJSON(c, b) }
