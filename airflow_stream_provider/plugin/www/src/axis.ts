/** Ticks of axes: round times of the person's time zone, and round numbers. */
import { minute, offset, shortDay, clock } from "./texts";

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const STEPS = [
  10,
  30,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
].concat([12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY]);

export interface Tick {
  at: number;
  label: string;
}

/** Return about as many ticks as there is room for. */
export function timeTicks(from: number, to: number, most: number): Tick[] {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1)!;
  const ahead = offset(from);
  const ticks: Tick[] = [];
  for (let at = Math.ceil((from + ahead) / step) * step - ahead; at <= to; at += step) {
    const midnight = (at + offset(at)) % DAY === 0;
    ticks.push({ at, label: midnight ? shortDay(at) : step < MINUTE ? clock(at) : minute(at) });
  }
  return ticks;
}

const TENS = [1, 2, 4, 5, 10];
const LENGTHS = [1, 2, 4, 10, 20, 30].flatMap((each) => [each * MINUTE, each * HOUR, each * DAY]).sort((a, b) => a - b);

/** Return the round number at or above the largest value: where an axis ends. */
export function roundTop(largest: number, seconds: boolean): number {
  if (largest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  const tens = TENS.map((each) => each * power).find((each) => each >= largest * 0.999)!;
  // 100 s is no round length, and two minutes are one.
  return seconds && tens > 40 ? (LENGTHS.find((each) => each >= largest * 0.999) ?? tens) : tens;
}
