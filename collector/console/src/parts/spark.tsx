// SPDX-License-Identifier: Apache-2.0

// A course in the height of a line of text.
import { duration } from '../format'

interface Props {
  /** Values in steps; null: nothing is known of the step, and the line is broken. */
  values: (number | null)[]
  /** The greatest value of all courses that are compared; without it, that of this one. */
  most?: number
  /** What it is a course of. */
  about: string
  width?: number
  height?: number
}

/** Runs of known values: each is a list of points. */
export function runs(values: (number | null)[], width: number, height: number, most: number): [number, number][][] {
  const list: [number, number][][] = []
  const step = values.length > 1 ? width / (values.length - 1) : 0
  let open = false
  values.forEach((v, i) => {
    if (v === null) {
      open = false
      return
    }
    if (!open) list.push([])
    open = true
    list[list.length - 1]!.push([i * step, height - (most > 0 ? Math.min(1, v / most) : 0) * (height - 2) - 1])
  })
  return list
}

export function Spark({ values, most, about, width = 110, height = 18 }: Props) {
  const known = values.filter((v) => v !== null)
  if (known.length === 0) return <span class="unknown">no data</span>
  const top = most ?? Math.max(...known)
  const text = `${about}: from ${duration(Math.min(...known))} to ${duration(Math.max(...known))}, at last ${duration(known.at(-1))}`
  return (
    <svg class="spark" role="img" aria-label={text} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      <title>{text}</title>
      {runs(values, width, height, top).map((run) => run.length === 1
        ? <circle key={run[0]![0]} cx={run[0]![0]} cy={run[0]![1]} r="1.5" />
        : <polyline key={run[0]![0]} points={run.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')} />)}
    </svg>
  )
}
