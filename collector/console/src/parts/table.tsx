// SPDX-License-Identifier: Apache-2.0

// A table of any number of rows: only those that can be seen are in the document.
import type { ComponentChildren, TargetedKeyboardEvent } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { count, visible } from '../format'
import { param, set } from '../route'
import { saveCSV, savePNG, tablePicture, type Value } from '../export'
import { usePart } from './rows'
import { useNarrow } from './width'

export interface Column<R> {
  key: string
  title: string
  /** What it means, for the head's tooltip. */
  about?: string
  /** For sorting and CSV. */
  value: (row: R) => Value
  /** What is shown, if it is not the value. */
  show?: (row: R) => ComponentChildren
  /** The same as plain text, for pictures; without it the value. */
  text?: (row: R) => string
  /** Numbers stand at the right. */
  number?: boolean
  /** In pixels. */
  width: number
  /** Takes what is left. */
  grows?: boolean
  /** Comes right after the first column where there is no room for all. */
  vital?: boolean
}

interface Props<R> {
  /** Of the table, for screen readers and for its settings in the address if there are more than one. */
  name: string
  title: string
  columns: Column<R>[]
  rows: R[]
  id: (row: R) => string
  /** A column's key; with - in front, the greatest first. '' keeps the answer's order. */
  sort?: string
  open?: (row: R) => void
  /** The row that is open. */
  opened?: string
  /** A class of a row. */
  mark?: (row: R) => string
  /** At most, in pixels; without it, what the window has. */
  height?: number
}

const rowHeight = 27
/** In a narrow window, a column that grows is not wider, but for the first if it has room. */
const narrowWidth = 136

/** Values in order: what is not there comes last, whatever the direction. */
export function compareValues(a: Value, b: Value, down: boolean): number {
  const missing = (v: Value) => v === null || v === undefined || v === ''
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b))
  const order = typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b), 'en', { numeric: true }) : a! < b! ? -1 : a! > b! ? 1 : 0
  return down ? -order : order
}

export function sorted<R>(rows: R[], columns: Column<R>[], order: string): R[] {
  const down = order.startsWith('-'), column = columns.find((c) => c.key === order.replace(/^-/, ''))
  if (!column) return rows
  return rows.map((row) => ({ row, value: column.value(row) })).sort((a, b) => compareValues(a.value, b.value, down)).map((one) => one.row)
}

export function saveTable<R>(name: string, columns: Column<R>[], rows: R[]): void {
  saveCSV(name, columns.map((c) => c.title), rows.map((row) => columns.map((c) => c.value(row))))
}

const plain = <R,>(c: Column<R>, row: R): string => visible(c.text?.(row) ?? String(c.value(row) ?? ''))

export const drawTable = <R,>(name: string, columns: Column<R>[], rows: R[]): Promise<void> =>
  savePNG(name, tablePicture(columns.map((c) => c.title), rows.map((row) => columns.map((c) => plain(c, row))), columns.map((c) => c.number === true)))

/** The columns in a narrow window: what matters most is there without scrolling. */
export function narrowed<R>(columns: Column<R>[], room: number): Column<R>[] {
  const [first, ...rest] = columns.map((c) => (c.grows ? { ...c, width: Math.min(c.width, narrowWidth) } : c))
  if (!first) return []
  const vital = rest.filter((c) => c.vital), left = room - vital.reduce((sum, c) => sum + c.width, 0)
  return [{ ...first, width: Math.max(first.width, Math.min(columns[0]!.width, left)) }, ...vital, ...rest.filter((c) => !c.vital)]
}

export function Table<R>({ name, title, columns: wide, rows, id, sort = '', open, opened, mark, height }: Props<R>) {
  const narrow = useNarrow(900), columns = useMemo(() => (narrow ? narrowed(wide, window.innerWidth - 26) : wide), [narrow, wide])
  const setting = name === 'main' ? 'sort' : `${name}.sort`
  const order = param(setting) || sort
  const list = useMemo(() => sorted(rows, columns, order), [rows, columns, order])
  const { box, first, last, view, onScroll } = usePart(list.length, rowHeight, height ?? 420)
  // The row that keys act on stays the same when others come before it.
  const [held, setHeld] = useState({ id: '' }), at = useRef(-1)
  const active = useMemo(() => {
    const there = list[at.current]
    const found = held.id === '' ? -1 : there && id(there) === held.id ? at.current : list.findIndex((row) => id(row) === held.id)
    return found >= 0 ? found : Math.min(at.current, list.length - 1)
  }, [list, held])
  at.current = active
  const page = Math.max(1, Math.floor(view / rowHeight) - 2)

  function choose(n: number) {
    at.current = n
    setHeld({ id: list[n] ? id(list[n]!) : '' })
  }
  function move(to: number) {
    const next = Math.max(0, Math.min(list.length - 1, to)), s = box.current
    choose(next)
    if (!s) return
    const head = rowHeight + 4, y = next * rowHeight
    if (y < s.scrollTop) s.scrollTop = y
    else if (y + rowHeight + head > s.scrollTop + s.clientHeight) s.scrollTop = y + rowHeight + head - s.clientHeight
  }

  const steps: Record<string, () => void> = {
    ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1), PageDown: () => move(active + page), PageUp: () => move(active - page),
    Home: () => move(0), End: () => move(list.length - 1),
  }
  if (open) steps.Enter = steps[' '] = () => { if (list[active]) open(list[active]!) }
  function key(event: TargetedKeyboardEvent<HTMLTableElement>) {
    const step = event.target === event.currentTarget ? steps[event.key] : undefined
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    step()
  }
  const cycle = (c: Column<R>) => {
    const first = c.number ? `-${c.key}` : c.key, second = c.number ? c.key : `-${c.key}`
    set({ [setting]: order === first ? second : first }, true)
  }
  const width = columns.reduce((sum, c) => sum + c.width, 0)
  return (
    <div class="table" ref={box} style={{ maxHeight: height ? `${height}px` : 'max(420px, calc(100vh - 230px))' }} onScroll={onScroll}>
      <table role="grid" aria-label={`${title}, ${count(list.length)} rows`} aria-rowcount={list.length + 1} aria-colcount={columns.length} tabIndex={0} onKeyDown={key}
        onFocus={() => { if (active < 0 && list.length > 0) choose(0) }}
        aria-activedescendant={active >= first && active < last ? `${name}-row-${active}` : undefined} style={{ minWidth: `${width}px` }}>
        <colgroup>{columns.map((c) => <col key={c.key} style={c.grows ? undefined : { width: `${c.width}px` }} />)}</colgroup>
        <thead>
          <tr role="row" aria-rowindex={1}>
            {columns.map((c) => {
              const direction = order === c.key ? 'ascending' : order === `-${c.key}` ? 'descending' : undefined
              return (
                <th key={c.key} scope="col" role="columnheader" aria-sort={direction} class={c.number ? 'number' : undefined} title={c.about}>
                  <button type="button" onClick={() => cycle(c)}>{c.title}<span aria-hidden="true" class="direction">{direction ? (direction === 'ascending' ? '▴' : '▾') : ''}</span></button>
                </th>
              )
            })}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" class="space"><td colSpan={columns.length} style={{ height: `${first * rowHeight}px` }} /></tr>}
          {list.slice(first, last).map((row, i) => {
            const n = first + i, key = id(row)
            return (
              <tr key={key} id={`${name}-row-${n}`} role="row" aria-rowindex={n + 2} aria-selected={open ? key === opened : undefined}
                class={`${n === active ? 'active ' : ''}${open ? 'opens ' : ''}${mark?.(row) ?? ''}`} onClick={open ? () => { choose(n); open(row) } : undefined}>
                {columns.map((c) => <td key={c.key} role="gridcell" class={c.number ? 'number' : undefined} title={plain(c, row)}>{c.show ? c.show(row) : plain(c, row)}</td>)}
              </tr>
            )
          })}
          {last < list.length && <tr aria-hidden="true" class="space"><td colSpan={columns.length} style={{ height: `${(list.length - last) * rowHeight}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  )
}
