import { formatCount } from './format.ts';
import './meter.css';

interface MeterProps {
  readonly label: string;
  readonly value: number;
  /** The limit; null if there is none. */
  readonly max: number | null;
  readonly format?: (value: number) => string;
  /** Shows the numbers beside the bar. Without it, they are the title. */
  readonly isFull?: boolean;
  /** Replaces the title. */
  readonly title?: string;
}

/** Shows how much of a limit is used. */
export function Meter({ label, value, max, format = formatCount, isFull, title }: MeterProps) {
  const part = max === null || max === 0 ? 0 : Math.min(1, value / max);
  const text = max === null ? `${format(value)}, no limit` : `${format(value)} of ${format(max)}`;
  const tone = part >= 1 ? 'meter-bad' : part >= 0.8 ? 'meter-warn' : '';
  return (
    <div class={`meter ${isFull === true ? 'meter-full' : ''}`} title={title ?? `${label}: ${text}`}>
      {isFull === true && (
        <div class="meter-text">
          <span>{label}</span>
          <span class="muted">{text}</span>
        </div>
      )}
      {max !== null && (
        <div class={`meter-track ${tone}`} role="img" aria-label={`${label}: ${text}`}>
          <div class="meter-bar" style={{ width: `${part * 100}%` }} />
        </div>
      )}
    </div>
  );
}
