// SPDX-License-Identifier: Apache-2.0

// A chart over time, by uPlot. Dragging over a part of the time shows that part.
import type { Ref } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { set } from '../route'
import { zone } from '../question'
import { dark } from '../theme'
import { instantText, showTime, type Zone } from '../time'

interface Props {
  label: string
  /** Seconds since 1970, and the values of each series. null is a gap: no line is drawn over it. */
  data: uPlot.AlignedData
  series: { label: string; colour: 'one' | 'two' | 'three' | 'four' | 'five' | 'bad' | 'slow'; bars?: boolean }[]
  value: (n: number) => string
  height?: number
  /** Begin and end of the time. */
  range: [number, number]
  canvas?: Ref<HTMLCanvasElement>
}

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

/** A mark on the axis of time: as much of it as the range needs. */
export function tick(at: number, span: number, where: Zone): string {
  const text = showTime(seconds(at), where)
  return span > 2 * 86_400 ? text.slice(5, 10) : span > 600 ? text.slice(11, 16) : text.slice(11)
}

const seconds = (s: number) => instantText(BigInt(Math.round(s)) * 1_000_000_000n)

export function Chart({ label, data, series, value, height = 110, range, canvas }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const scheme = dark.value, where = zone()
  useEffect(() => {
    const at = box.current!
    const axis = { stroke: colour('soft'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line'), width: 1 }, font: '11px system-ui, sans-serif' }
    const plot = new uPlot({
      width: at.clientWidth, height, legend: { show: false }, tzDate: (s) => (where === 'utc' ? uPlot.tzDate(new Date(s * 1000), 'Etc/UTC') : new Date(s * 1000)),
      cursor: { y: false, drag: { x: true, y: false, setScale: false } }, padding: [8, 28, 0, 0],
      scales: { x: { time: true, range: () => range }, y: { range: (_, __, most) => [0, Math.max(most, 1e-9) * 1.1] } },
      axes: [{ ...axis, size: 26, values: (_, splits) => splits.map((s) => tick(s, range[1] - range[0], where)) }, { ...axis, size: 66, values: (_, splits) => splits.map((n) => value(n)), incrs: undefined, space: 28 }],
      series: [{}, ...series.map((s) => ({
        label: s.label, stroke: colour(s.colour), width: s.bars ? 0 : 1.5, fill: s.bars ? colour(s.colour) : undefined, spanGaps: false,
        paths: s.bars ? uPlot.paths.bars!({ size: [0.85, 40], align: 1 }) : undefined, points: s.bars ? { show: false } : {},
      }))],
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 4) return
          const a = u.posToVal(u.select.left, 'x'), b = u.posToVal(u.select.left + u.select.width, 'x')
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          if (b - a >= 1) set({ from: seconds(a), until: seconds(b), since: null })
        }],
      },
    }, data, at)
    const drawn = at.querySelector('canvas')
    if (canvas && typeof canvas === 'object') canvas.current = drawn
    const watch = new ResizeObserver(() => plot.setSize({ width: at.clientWidth, height }))
    watch.observe(at)
    return () => {
      watch.disconnect()
      plot.destroy()
    }
  }, [data, scheme, where, height, range[0], range[1]])
  return <div class="chart" ref={box} role="img" aria-label={label} style={{ minHeight: `${height}px` }} />
}
