// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figurePanel is one pair of axes with the curves in it.
type figurePanel struct {
	title  string
	unit   unit
	curves []*curve
}

// curve holds the points of one variant, or the values that a paper published for
// it.
type curve struct {
	name         string
	by           Worker
	x, y, spread []float64
	source       string // source of a paper's values; empty: ours
	baseline     bool
}

// unit is the unit of an axis, and the factor from a point's figure to it.
type unit struct {
	label  string
	factor float64
}

// Plot draws a result as SVG, with the papers' values.
func (r Result) Plot() ([]byte, error) {
	if len(r.Points) == 0 {
		return nil, fmt.Errorf("%s has no point to draw", r.Name)
	}
	papers, err := papersValues()
	if err != nil {
		return nil, err
	}
	panels := r.panels(papers)
	drawn := drawBars
	if slices.ContainsFunc(panels, func(p *figurePanel) bool { return p.most() >= 3 }) {
		drawn = drawCurves
		for _, p := range panels {
			p.curves = slices.DeleteFunc(p.curves, func(c *curve) bool { return c.baseline || len(c.x) < 2 && c.source == "" })
		}
		panels = slices.DeleteFunc(panels, func(p *figurePanel) bool { return len(p.curves) == 0 })
	}
	return r.compose(panels, drawn, papers)
}

// most is how many points the longest curve has.
func (p *figurePanel) most() (n int) {
	for _, c := range p.curves {
		if c.source == "" {
			n = max(n, len(c.x))
		}
	}
	return n
}

const paperFigure = "figure "

// layout is panels in the order of their first curves.
type layout []*figurePanel

func (l *layout) panel(title string, u unit) *figurePanel {
	for _, p := range *l {
		if p.title == title && p.unit == u {
			return p
		}
	}
	*l = append(*l, &figurePanel{title: title, unit: u})
	return (*l)[len(*l)-1]
}

// panels sorts the points by frame size, where a variant has one, and by unit.
// Figures of a paper with titles come first, each with our curves.
func (r Result) panels(papers publication) []*figurePanel {
	var list layout
	values, inFigure := papers.of(r.Name), make(map[Dimensions]bool)
	for _, v := range values {
		if papers.Papers[v.Paper].Figures[v.Figure] != "" {
			inFigure[v.Beside] = true
		}
	}
	for _, p := range r.Points {
		d := p.Dimensions
		value, u := r.figure(p)
		switch {
		case u == memoryUnit && value == 0 || u == addedUnit && p.isBaseline():
			// a zero cannot be on a logarithmic axis, and a baseline is not added
			// to anything
		case inFigure[d] && d.Comparison == AsInPaper:
		default:
			list.panel(d.panel(), u).curve(d.name(), d.By, "").add(p, value, u)
		}
	}
	for _, v := range values {
		name, title := v.Beside.name(), v.Beside.panel()
		if figure := papers.Papers[v.Paper].Figures[v.Figure]; figure != "" {
			name, title = v.label(), paperFigure+v.Figure+": "+figure
			for _, p := range r.Points {
				if p.Dimensions == v.Beside {
					list.panel(title, rateUnit).curve(name, v.Beside.By, "").add(p, p.Ratio, rateUnit)
				}
			}
		}
		c := list.panel(title, rateUnit).curve(name, v.Beside.By, v.source())
		for i, x := range v.X {
			c.x, c.y, c.spread = append(c.x, x), append(c.y, v.ratio(i)*rateUnit.factor), append(c.spread, 0)
		}
	}
	slices.SortStableFunc(list, func(a, b *figurePanel) int { return b.rank() - a.rank() })
	return list
}

// rank is 1 for a figure of a paper, which comes first, and 0 otherwise.
func (p *figurePanel) rank() int {
	if strings.HasPrefix(p.title, paperFigure) {
		return 1
	}
	return 0
}

// add adds a point with its figure.
func (c *curve) add(p Point, value float64, u unit) {
	spread := 0.0
	if p.Spread != nil {
		spread = *p.Spread * u.factor
	}
	c.x, c.y, c.spread = append(c.x, p.X), append(c.y, value*u.factor), append(c.spread, spread)
	c.baseline = c.baseline || p.PPS != nil && p.isBaseline()
}

func (p *figurePanel) curve(name string, by Worker, source string) *curve {
	for _, c := range p.curves {
		if c.name == name && c.source == source {
			return c
		}
	}
	p.curves = append(p.curves, &curve{name: name, by: by, source: source})
	return p.curves[len(p.curves)-1]
}

// sources are the sources of the published values in the panel.
func (p *figurePanel) sources() (list []string) {
	for _, c := range p.curves {
		if c.source != "" && !slices.Contains(list, c.source) {
			list = append(list, c.source)
		}
	}
	return list
}

// Units of rates, of memory, and of a packet's extra time.
var (
	rateUnit   = unit{"packet rate, % of the baseline", 100}
	memoryUnit = unit{"memory, MiB", 1.0 / (1 << 20)}
	addedUnit  = unit{"added time, ns", 1}
	packetUnit = unit{"processor time for a packet, ns", 1}
)

// figure is a point's value in the figure, with its unit.
func (r Result) figure(p Point) (float64, unit) {
	switch {
	case p.NS != nil && r.Name == "footprint":
		return *p.NS, unit{"time, ms", 1e-6}
	case p.NS != nil && r.Name == "exporter":
		return *p.NS, unit{"processor time for a record, ns", 1}
	case p.NS != nil && r.Name == "stamp":
		return *p.NS, packetUnit
	case p.NS != nil:
		return *p.NS, addedUnit
	case p.Bytes != nil:
		return *p.Bytes, memoryUnit
	case r.Name == "cores":
		return *p.PPS, unit{"million packets per second", 1e-6}
	}
	return p.Ratio, rateUnit
}

// Measures of a figure.
const (
	titleHeight = 23 * vg.Millimeter
	leastWidth  = 190 * vg.Millimeter // what a title needs
	panelWidth  = 118 * vg.Millimeter
	panelHeight = 88 * vg.Millimeter
	legendLine  = 5 * vg.Millimeter
	rowHeight   = 5.2 * vg.Millimeter
	margin      = 3 * vg.Millimeter
)

// fonts can replace each other, because their letters have the same widths.
const fonts = "Liberation Sans,Arimo,Arial,Helvetica,sans-serif"

// drawing is a way to draw a panel: its size, and onto what.
type drawing struct {
	size func(p *figurePanel) (width, height vg.Length)
	onto func(r Result, p *figurePanel, c draw.Canvas) error
}

// rowOf is how many panels are in a row when there are more than three; with more
// in a row, letters would be too small.
const rowOf = 2

// rows divides panels into rows.
func rows(panels []*figurePanel) [][]*figurePanel {
	if len(panels) <= 3 {
		return [][]*figurePanel{panels}
	}
	return slices.Collect(slices.Chunk(panels, rowOf))
}

// measure is the width and height of a row of panels.
func (d drawing) measure(row []*figurePanel) (width, height vg.Length) {
	for _, p := range row {
		w, h := d.size(p)
		width, height = width+w, max(height, h)
	}
	return width, height
}

// compose arranges the panels below the title.
func (r Result) compose(panels []*figurePanel, d drawing, papers publication) ([]byte, error) {
	var width, height vg.Length
	for _, row := range rows(panels) {
		w, h := d.measure(row)
		width, height = max(width, w), height+h
	}
	stretch := max(1, leastWidth/width)
	width *= stretch
	canvas := vgsvg.New(width, height+titleHeight)
	all := draw.New(canvas)
	all.SetColor(white)
	all.Fill(all.Rectangle.Path())
	r.drawTitle(all, papers)
	bottom := height
	for _, row := range rows(panels) {
		_, high := d.measure(row)
		left := vg.Length(0)
		for _, p := range row {
			w, h := d.size(p)
			w *= stretch
			part := draw.Crop(all, left+margin, left+w-width-margin, bottom-h, bottom-height-titleHeight)
			if err := d.onto(r, p, part); err != nil {
				return nil, fmt.Errorf("draw %s: %w", r.Name, err)
			}
			left += w
		}
		bottom -= high
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %s: %w", r.Name, err)
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:"+fonts+";")), nil
}

// drawTitle writes what is shown, and where it was measured and published.
func (r Result) drawTitle(all draw.Canvas, papers publication) {
	line := func(size float64, below vg.Length, text string) {
		at := vg.Point{X: all.Center().X, Y: all.Max.Y - below}
		all.FillText(textStyle(size, sans, draw.XCenter, draw.YCenter), at, text)
	}
	line(13, 5*vg.Millimeter, r.heading())
	line(8, 10*vg.Millimeter, "Baseline: "+r.Baseline+".")
	line(8, 14*vg.Millimeter, r.Machine+", "+r.Kernel+"; "+r.Time.Format(time.RFC3339))
	sources := make(map[string]bool)
	for _, v := range papers.of(r.Name) {
		sources[v.Paper] = true
	}
	if len(sources) == 0 {
		return
	}
	var titles []string
	for _, key := range slices.Sorted(maps.Keys(sources)) {
		titles = append(titles, fmt.Sprintf("%s: \"%s\"", key, papers.Papers[key].Title))
	}
	line(8, 18*vg.Millimeter, "Published values are of "+strings.Join(titles, ", ")+".")
}

// heading is what the figure shows.
func (r Result) heading() string {
	if r.Title != "" {
		return r.Name + ": " + r.Title
	}
	return r.Name
}

// isLogarithmic reports whether values spread over more than two decades.
func isLogarithmic(values []float64) bool {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		} else {
			return false
		}
	}
	return most/least >= 100
}
