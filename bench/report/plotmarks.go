// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Outlines of marks around (0, 0) with radius 1.
var (
	diamond  = corners(4, 90)
	outlines = [][]vg.Point{
		corners(24, 0), corners(4, 45), corners(3, 90), corners(3, 270), diamond,
		corners(3, 180), corners(3, 0), star(5), corners(6, 0),
	}
)

// corners are the corners of a regular polygon, rotated by degrees.
func corners(n int, degrees float64) []vg.Point {
	var list []vg.Point
	for i := range n {
		at := (degrees/360 + float64(i)/float64(n)) * 2 * math.Pi
		list = append(list, vg.Point{X: vg.Length(math.Cos(at)), Y: vg.Length(math.Sin(at))})
	}
	return list
}

// star is a star with n points.
func star(n int) []vg.Point {
	list := corners(2*n, 90)
	for i := 1; i < len(list); i += 2 {
		list[i] = list[i].Scale(0.45)
	}
	return list
}

// shape draws an outline as a glyph, hollow for published values.
type shape struct {
	outline []vg.Point
	hollow  bool
}

// DrawGlyph implements draw.GlyphDrawer.
func (s shape) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	var p vg.Path
	for i, corner := range s.outline {
		corner = at.Add(corner.Scale(style.Radius))
		if i == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	if !s.hollow {
		c.SetColor(style.Color)
		c.Fill(p)
		return
	}
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: vg.Points(1.2)})
	c.Stroke(p)
}

// style is how one of our curves and its published values look.
type style struct {
	color   color.Color
	outline []vg.Point
	dashes  []vg.Length
}

// styled is the style of the n-th pair: colours repeat sooner than outlines.
func styled(n int) style {
	s := style{color: palette[n%len(palette)], outline: outlines[n%len(outlines)]}
	if n/len(palette)%2 == 1 {
		s.dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return s
}

// Radii of marks: published values are drawn around ours.
const ourRadius, publishedRadius = 2.6, 4.2 // points

// pair is a curve of ours, or none, and the published values for it.
type pair struct {
	name      string
	ours      *curve
	published []*curve
}

// pairs are the curves of a panel by name, in their order.
func (p *figurePanel) pairs() []pair {
	var list []pair
	at := make(map[string]int)
	for _, c := range p.curves {
		i, ok := at[c.name]
		if !ok {
			i = len(list)
			at[c.name] = i
			list = append(list, pair{name: c.name})
		}
		if c.source == "" {
			list[i].ours = c
		} else {
			list[i].published = append(list[i].published, c)
		}
	}
	return list
}

// legendLines is the number of entries in the legend of curves.
func (p *figurePanel) legendLines() int { return len(p.pairs()) + len(p.sources()) }

// draw adds a pair to axes and legend.
func (r pair) draw(p *plot.Plot, legend *plot.Legend, s style) error {
	var thumbnails []plot.Thumbnailer
	if r.ours != nil {
		line, scatter, err := r.ours.draw(p, s)
		if err != nil {
			return err
		}
		thumbnails = append(thumbnails, line, scatter)
	}
	for _, c := range r.published {
		scatter, err := plotter.NewScatter(c.points())
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		scatter.Color, scatter.Shape, scatter.Radius = s.color, shape{s.outline, true}, vg.Points(publishedRadius)
		p.Add(scatter)
	}
	if len(r.published) > 0 {
		thumbnails = append(thumbnails, hollow(s))
	}
	legend.Add(r.name, thumbnails...)
	return nil
}

// draw adds a curve, with bars between the quartiles.
func (c *curve) draw(p *plot.Plot, s style) (*plotter.Line, *plotter.Scatter, error) {
	points := c.points()
	line, scatter, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.name, err)
	}
	line.Width, line.Color, line.Dashes = vg.Points(1.3), s.color, s.dashes
	scatter.Radius, scatter.Color, scatter.Shape = vg.Points(ourRadius), s.color, shape{s.outline, false}
	var errors plotter.YErrors
	for _, spread := range c.spread {
		errors = append(errors, struct{ Low, High float64 }{spread / 2, spread / 2})
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points, errors})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.name, err)
	}
	bars.Color, bars.CapWidth = line.Color, vg.Points(3)
	p.Add(bars, line, scatter)
	return line, scatter, nil
}

func (c *curve) points() (list plotter.XYs) {
	for i := range c.x {
		list = append(list, plotter.XY{X: c.x[i], Y: c.y[i]})
	}
	return list
}

// hollow draws the mark of published values in a legend, to the right of ours.
type hollow style

// Thumbnail implements plot.Thumbnailer.
func (h hollow) Thumbnail(c *draw.Canvas) {
	r := vg.Points(publishedRadius * 0.8)
	at := vg.Point{X: c.Max.X - r, Y: c.Center().Y}
	c.DrawGlyph(draw.GlyphStyle{Color: h.color, Radius: r, Shape: shape{h.outline, true}}, at)
}
