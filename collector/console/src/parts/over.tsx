// SPDX-License-Identifier: Apache-2.0

// Percentiles over time: since when something is slow.
import { useMemo, useRef } from 'preact/hooks'
import { saveCSV, savePNG } from '../export'
import { duration } from '../format'
import { inSteps } from '../steps'
import { instantText } from '../time'
import { Actions } from './actions'
import { Chart } from './chart'

const colours = ['one', 'two', 'three', 'four', 'five'] as const

/** One line: of each point of a series, a value in nanoseconds. */
export interface Line { name: string; points: { time: string; ns: number | undefined }[] }

/** The lines in steps; a step of which nothing is known has no value. */
export function lined(steps: bigint[], lines: Line[]): (number | null)[][] {
  return lines.map((l) => inSteps(steps, l.points).map((p) => p?.ns ?? null))
}

interface Props { title: string; file: string; steps: bigint[]; step: number; lines: Line[] }

export function Over({ title, file, steps, step, lines }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const shown = lines.slice(0, colours.length), values = useMemo(() => lined(steps, shown), [steps, lines])
  const data = useMemo(() => [steps.map((s) => Number(s / 1_000_000n) / 1000), ...values] as [number[], ...(number | null)[][]], [steps, values])
  const known = values.flat().filter((v) => v !== null)
  if (known.length === 0) return <p class="unknown">{title}: no delay is known</p>
  const begin = data[0][0]!, end = data[0].at(-1)! + step / 1e9
  return (
    <figure class="over">
      <div class="part">
        <h3>{title}</h3>
        <Actions question={null} csv={() => saveCSV(file, ['Time', ...shown.map((l) => l.name)], steps.map((s, i) => [instantText(s), ...values.map((v) => v[i])]))} png={() => (canvas.current ? savePNG(file, canvas.current) : undefined)} />
      </div>
      <Chart label={`${title} over the time, from ${duration(Math.min(...known))} to ${duration(Math.max(...known))}; CSV has each step`} data={data} range={[begin, end]} value={(n) => duration(n)} canvas={canvas} height={150}
        series={shown.map((l, i) => ({ label: l.name, colour: colours[i]! }))} />
      <figcaption class="legend">{shown.map((l, i) => <span key={l.name}><i style={{ background: `var(--${colours[i]})` }} />{l.name}</span>)}</figcaption>
    </figure>
  )
}
