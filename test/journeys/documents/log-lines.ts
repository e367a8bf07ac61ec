export type LogLine = Readonly<Record<string, unknown>>;

export interface LogLines {
  /** Everything that was logged, as text. */
  text(): string;
  /** Adds a line, which should be JSON. */
  add(line: string): void;
  /** Returns the next line with these fields. */
  waitFor(fields: LogLine): Promise<LogLine>;
  /** Returns the first line with these fields, now or as soon as it is logged. */
  find(fields: LogLine): Promise<LogLine>;
}

function parseLine(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return { text };
  }
}

/** Keeps what is logged, and tells those who wait for a line of it. */
export function createLogLines(): LogLines {
  const lines: LogLine[] = [];
  const waiting = new Set<(line: LogLine) => void>();
  const matchesAll = (fields: LogLine) => (line: LogLine) =>
    Object.entries(fields).every(([name, value]) => line[name] === value);

  function waitFor(fields: LogLine): Promise<LogLine> {
    const matches = matchesAll(fields);
    return new Promise((resolve) => {
      waiting.add(function tell(line) {
        if (!matches(line)) return;
        waiting.delete(tell);
        resolve(line);
      });
    });
  }

  return {
    text: () => lines.map((line) => JSON.stringify(line)).join('\n'),
    add(text) {
      const line = parseLine(text);
      lines.push(line);
      for (const tell of waiting) tell(line);
    },
    waitFor,
    async find(fields) {
      return lines.find(matchesAll(fields)) ?? waitFor(fields);
    },
  };
}
