import { Card } from '../../parts/card.tsx';
import { formatBytes, formatCount, formatDuration, now } from '../../parts/format.ts';
import { Meter } from '../../parts/meter.tsx';
import { nameLimit } from '../../parts/sandbox-limits.ts';
import { listUsedLimits } from '../../sessions/limits.ts';
import type { SessionDetails } from '../session-view.tsx';

/** The limits of a session and how much of each is used, its life among them. */
export function LimitsCard({ details }: { readonly details: SessionDetails }) {
  const { createdAt, endsAt, sandbox } = details;
  const limits = listUsedLimits({ ...details, callsSince: 0 });
  const [start, end] = [Date.parse(createdAt), Date.parse(endsAt)];
  return (
    <Card title="Limits">
      {limits.map(({ name, label, used, max }) => (
        <Meter
          key={name}
          isFull
          label={label}
          value={used}
          max={max}
          format={name === 'totalBytes' ? formatBytes : formatCount}
        />
      ))}
      <Meter isFull label="Lifetime" value={now.value - start} max={end - start} format={formatDuration} />
      {sandbox !== null && sandbox.limits !== null && (
        <p class="session-small">Its sandboxes also limit {describeMechanisms(sandbox.limits)}.</p>
      )}
      {sandbox?.refusal != null && <p class="session-small">No sandbox: {sandbox.refusal}</p>}
    </Card>
  );
}

/** Writes what is limited with what enforces it, such as `memory and processes (cgroup v1)`. */
function describeMechanisms(limits: Readonly<Record<string, string>>): string {
  const mechanisms = [...new Set(Object.values(limits))];
  return mechanisms
    .map((mechanism) => {
      const names = Object.keys(limits).filter((name) => limits[name] === mechanism);
      return `${names.map((name) => nameLimit(name).toLowerCase()).join(', ')} (by ${mechanism})`;
    })
    .join('; ');
}
