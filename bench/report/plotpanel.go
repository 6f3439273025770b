// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours that people with colour blindness can distinguish; marks differ, too.
var (
	white   = color.RGBA{0xff, 0xff, 0xff, 0xff}
	black   = color.RGBA{0x10, 0x10, 0x10, 0xff}
	grey    = color.RGBA{0x99, 0x99, 0x99, 0xff}
	pale    = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	palette = []color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
		{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
	}
)

// sans is the font of all figures.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func textStyle(size float64, f font.Font, x draw.XAlignment, y draw.YAlignment) draw.TextStyle {
	f.Size = vg.Points(size)
	return draw.TextStyle{Color: black, Font: f, XAlign: x, YAlign: y, Handler: text.Plain{Fonts: font.DefaultCache}}
}

// newAxes is an empty panel in the common style.
func newAxes(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, y
	for style, size := range map[*draw.TextStyle]float64{
		&p.Title.TextStyle: 11, &p.Y.Label.TextStyle: 9, &p.X.Tick.Label: 8, &p.Y.Tick.Label: 8, &p.Legend.TextStyle: 8,
	} {
		style.Font.Typeface, style.Font.Variant, style.Font.Size = sans.Typeface, sans.Variant, vg.Points(size)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, pale
	p.Add(grid)
	return p
}

// newLegend is a legend below a panel.
func newLegend() plot.Legend {
	legend := plot.NewLegend()
	legend.TextStyle.Font.Typeface, legend.TextStyle.Font.Variant, legend.TextStyle.Font.Size = sans.Typeface, sans.Variant, vg.Points(8)
	legend.Left, legend.Top = true, true
	legend.ThumbnailWidth, legend.Padding = vg.Points(26), vg.Points(3)
	return legend
}

// above draws axes, below them the name of x, and a legend with this many lines.
func above(c draw.Canvas, p *plot.Plot, x string, legend *plot.Legend, lines int) {
	below := vg.Length(lines+2) * legendLine
	axes := draw.Crop(c, 0, 0, below, 0)
	p.Draw(axes)
	data := p.DataCanvas(axes) // the library does not find the middle of a logarithmic axis
	c.FillText(textStyle(9, sans, draw.XCenter, draw.YTop), vg.Point{X: data.Center().X, Y: axes.Min.Y - vg.Points(2)}, x)
	legend.Draw(draw.Crop(c, vg.Points(30), 0, 0, below-1.5*legendLine-(c.Max.Y-c.Min.Y)))
}

// drawCurves draws lines over x.
var drawCurves = drawing{
	size: func(p *figurePanel) (vg.Length, vg.Length) {
		return panelWidth, panelHeight + vg.Length(p.legendLines()+2)*legendLine
	},
	onto: func(r Result, panel *figurePanel, c draw.Canvas) error {
		p, legend := newAxes(panel.title, panel.unit.label), newLegend()
		var xs, ys []float64
		for number, pair := range panel.pairs() {
			if err := pair.draw(p, &legend, styled(number)); err != nil {
				return err
			}
		}
		for _, c := range panel.curves {
			xs, ys = append(xs, c.x...), append(ys, c.y...)
		}
		for _, source := range panel.sources() {
			legend.Add("published: "+source+", hollow, in the shape and colour of ours", hollow{color: black, outline: diamond})
		}
		if err := scale(p, panel, xs, ys); err != nil {
			return err
		}
		above(c, p, r.Axis, &legend, panel.legendLines())
		return nil
	},
}

// scale sets the axes: x at the measured values, y from 0.
func scale(p *plot.Plot, panel *figurePanel, xs, ys []float64) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(xs)))
	var ticks plot.ConstantTicks
	for _, x := range distinct {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	p.X.Tick.Marker = ticks
	if isLogarithmic(distinct) {
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max = distinct[0]/1.1, distinct[len(distinct)-1]*1.1
	} else if len(distinct) > 1 {
		p.X.Min, p.X.Max = distinct[0]-0.3, distinct[len(distinct)-1]+0.3
	}
	if panel.unit == memoryUnit && isLogarithmic(ys) {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		return nil
	}
	p.Y.Min, p.Y.Max = min(0, slices.Min(ys)), 1.08*slices.Max(ys)
	if panel.unit != rateUnit {
		return nil
	}
	p.Y.Max = max(p.Y.Max, 105)
	p.Y.Tick.Marker = percentTicks(p.Y.Max)
	line, err := plotter.NewLine(plotter.XYs{{X: distinct[0], Y: 100}, {X: distinct[len(distinct)-1], Y: 100}})
	if err != nil {
		return err
	}
	line.Color, line.Width = grey, vg.Points(1)
	p.Add(line)
	return nil
}

// percentTicks are ticks at steps of 20%, or larger steps to limit their number.
func percentTicks(most float64) plot.ConstantTicks {
	step := 20.0
	for most/step > 10 {
		step *= 2
	}
	var ticks plot.ConstantTicks
	for at := 0.0; at <= most; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'f', -1, 64)})
	}
	return ticks
}

// swatch is a bar in a legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// Colours of the kinds of bars.
var (
	ourBars      = palette[0]
	kernelsBars  = palette[4]
	baselineBars = grey
)

// barLines is the most lines in the legend of bars.
const barLines = 4

// drawBars draws a bar for each point, with the first one on top.
var drawBars = drawing{
	size: func(p *figurePanel) (vg.Length, vg.Length) {
		return 2 * panelWidth, vg.Length(len(p.rows()))*rowHeight + 14*vg.Millimeter + (barLines+2)*legendLine
	},
	onto: func(r Result, panel *figurePanel, c draw.Canvas) error {
		rows := panel.rows()
		p, legend := newAxes(panel.title, ""), newLegend()
		names, most := make([]string, len(rows)), 0.0
		for _, row := range rows {
			most = max(most, row.y, row.published)
		}
		var sources []string
		var published *plotter.Scatter
		for i, row := range rows {
			at := len(rows) - 1 - i
			names[at] = fmt.Sprintf("%s, %s %s", row.name, strconv.FormatFloat(row.x, 'g', -1, 64), r.xName())
			mark, err := row.add(p, float64(at), most)
			if err != nil {
				return err
			}
			if mark != nil && !slices.Contains(sources, row.source) {
				published, sources = mark, append(sources, row.source)
			}
		}
		if published != nil {
			legend.Add("published: "+strings.Join(sources, "; "), published)
		}
		for _, kind := range []struct {
			name  string
			color color.Color
		}{
			{"ours", ourBars},
			{"the kernel's own IOAM", kernelsBars},
			{"without IOAM and programs, or with programs that do nothing", baselineBars},
		} {
			if slices.ContainsFunc(rows, func(row row) bool { return row.colour() == kind.color }) {
				legend.Add(kind.name, swatch{kind.color})
			}
		}
		p.NominalY(names...)
		p.Y.Padding = 9 * vg.Millimeter // room for fonts with wider letters
		p.X.Min, p.X.Max = min(0, p.X.Min), 1.06*most
		if panel.unit == rateUnit {
			p.X.Tick.Marker = percentTicks(p.X.Max)
		}
		p.Y.Min, p.Y.Max = -0.8, float64(len(rows))-0.2
		above(c, p, panel.unit.label, &legend, barLines)
		return nil
	},
}

// add draws a bar with its number, and a mark at a paper's value.
func (r row) add(p *plot.Plot, at, most float64) (mark *plotter.Scatter, err error) {
	bar, err := plotter.NewBarChart(plotter.Values{r.y}, rowHeight*0.66)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, r.colour(), 0
	p.Add(bar)
	label := plotter.XYLabels{XYs: plotter.XYs{{X: 0, Y: at}}, Labels: []string{" " + strconv.FormatFloat(r.y, 'f', digits(most), 64)}}
	style := textStyle(7, sans, draw.XLeft, draw.YCenter)
	style.Color = white
	if r.y < 0.08*most {
		label.XYs[0].X, style.Color = max(r.y, 0), black
	}
	number, err := plotter.NewLabels(label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	number.TextStyle[0] = style
	p.Add(number)
	if r.published == 0 {
		return nil, nil
	}
	if mark, err = plotter.NewScatter(plotter.XYs{{X: r.published, Y: at}}); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	mark.Shape, mark.Color, mark.Radius = shape{diamond, true}, black, vg.Points(publishedRadius)
	p.Add(mark)
	return mark, nil
}

// digits is how many decimals numbers have whose greatest is most.
func digits(most float64) int {
	if most < 10 {
		return 2
	}
	return 1
}

// row is one bar.
type row struct {
	name      string
	by        Worker
	x, y      float64
	published float64 // 0: none
	source    string
}

func (p *figurePanel) rows() []row {
	var list []row
	for _, c := range p.curves {
		for i := range c.x {
			if c.source == "" {
				list = append(list, row{name: c.name, by: c.by, x: c.x[i], y: c.y[i]})
			}
		}
	}
	for _, c := range p.curves {
		for i := range c.x {
			for j := range list {
				if c.source != "" && list[j].name == c.name && list[j].x == c.x[i] {
					list[j].published, list[j].source = c.y[i], c.source
				}
			}
		}
	}
	if p.most() > 1 {
		slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(a.x, b.x) })
	}
	return list
}

// colour distinguishes the kernel's work from ours.
func (r row) colour() color.Color {
	switch r.by {
	case ByKernelIOAM:
		return kernelsBars
	case ByKernel, ByEmptyProgram:
		return baselineBars
	}
	return ourBars
}
