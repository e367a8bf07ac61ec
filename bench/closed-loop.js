// Keeps exactly one call outstanding per lane until `warmup + calls` are answered; only the last `calls` are counted.
import { callId } from './messages.js';

export function closedLoop(lanes, { warmup, calls }) {
  const latencies = new Float64Array(calls);
  const total = warmup + calls;
  let issued = 0;
  let answered = 0;
  let startedAt = performance.now();
  let startCpu = process.cpuUsage();

  return new Promise((resolve, reject) => {
    const next = (lane) => {
      if (issued === total) return;
      const id = callId(issued++);
      const sentAt = performance.now();
      lane.call(id, (error) => {
        if (error) return reject(error);
        const now = performance.now();
        if (answered >= warmup) latencies[answered - warmup] = now - sentAt;
        answered++;
        if (answered === warmup) {
          startedAt = now;
          startCpu = process.cpuUsage();
        }
        if (answered === total) return resolve(summary(latencies, now - startedAt, process.cpuUsage(startCpu)));
        next(lane);
      });
    };
    for (const lane of lanes) next(lane);
  });
}

function summary(latencies, elapsedMs, cpu) {
  latencies.sort();
  const at = (share) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))];
  return {
    callsPerSecond: (latencies.length / elapsedMs) * 1000,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    loadCpuShare: (cpu.user + cpu.system) / 1000 / elapsedMs,
  };
}
