// What every row is compared with, and what Ambit has to reach.

// Adds to each figure what the subject adds to direct stdio and how that compares with the floor.
export function compare(results) {
  const find = finder(results, ({ figures }) => figures);
  for (const { name, figures } of results) {
    for (const [sessions, figure] of Object.entries(figures)) {
      figure.addedMs = added(find, name, sessions);
      figure.addedVsFloor = addedVsFloor(find, name, sessions);
      figure.callsVsFloor = callsVs(find, name, 'floor', sessions);
    }
  }
}

// Each target with the value of the medians, and that of every round to show how far it can be relied on.
export function judge(results, roundCount) {
  const find = finder(results, ({ figures }) => figures);
  const perRound = Array.from({ length: roundCount }, (_, round) => finder(results, ({ rounds }) => rounds[round]));
  const peer = betterPeer(results)?.name;
  const target = (era, what, goal, value, reaches) => ({
    era,
    what,
    goal,
    value: value(find),
    reached: value(find) === undefined ? undefined : reaches(value(find)),
    rounds: perRound.map(value),
  });
  const goal = (least) => `≥ ${least} ×`;
  const atMost = (era, what, most, name) =>
    target(
      era,
      what,
      `≤ ${most} ×`,
      (by) => addedVsFloor(by, name, 1),
      (is) => is <= most,
    );
  // Untold: the server gets no context. Full: signed context, rules, quota and journal.
  const relayed = { added: 1.6, ofFloor: 0.75, ofPeer: 2.3 };
  const full = { added: 1.7, ofFloor: 0.75, ofPeer: 2.2 };
  const rows = [
    ['ambit-untold', 'modern, untold', relayed],
    ['ambit-handshake-untold', 'handshake, untold', relayed],
    ['ambit', 'modern, full', full],
    ['ambit-handshake', 'handshake, full', full],
  ];
  return rows.flatMap(([name, era, goals]) => {
    const ofFloor = (by) => callsVs(by, name, 'floor', 16);
    const ofPeer = (by) => callsVs(by, name, peer, 16);
    return [
      ...(goals.added === undefined ? [] : [atMost(era, '1 session: added, to the floor', goals.added, name)]),
      target(era, '16 sessions: calls/s, to the floor', goal(goals.ofFloor), ofFloor, (is) => is >= goals.ofFloor),
      target(
        era,
        `16 sessions: calls/s, to ${peer ?? 'a peer'}`,
        goal(goals.ofPeer),
        ofPeer,
        (is) => is >= goals.ofPeer,
      ),
    ];
  });
}

// What signed context and rules cost: everything on against neither, in one run.
export function contextLine(results) {
  const find = finder(results, ({ figures }) => figures);
  const [full, untold] = [find('ambit', 1), find('ambit-untold', 1)];
  if (!full || !untold) return 'Signed context and rules: not measured (needs the subjects ambit and ambit-untold)';
  const added = full.p50Ms - untold.p50Ms;
  const share = ((added / full.p50Ms) * 100).toFixed(0);
  return `Signed context and rules: ${(added * 1000).toFixed(0)} µs of a call at one session (p50), ${share} % of it`;
}

function betterPeer(results) {
  const peers = results.filter(({ peer, figures }) => peer && figures[16]);
  return peers.toSorted((a, b) => b.figures[16].callsPerSecond - a.figures[16].callsPerSecond)[0];
}

function finder(results, figuresOf) {
  return (name, sessions) => {
    const result = results.find((one) => one.name === name);
    return result && figuresOf(result)?.[sessions];
  };
}

function added(find, name, sessions) {
  const own = find(name, sessions);
  const direct = find('direct', sessions);
  return own && direct ? own.p50Ms - direct.p50Ms : undefined;
}

function addedVsFloor(find, name, sessions) {
  return ratio(added(find, name, sessions), added(find, 'floor', sessions));
}

function callsVs(find, name, base, sessions) {
  return ratio(find(name, sessions)?.callsPerSecond, find(base, sessions)?.callsPerSecond);
}

function ratio(value, base) {
  return value === undefined || !(base > 0) ? undefined : value / base;
}
