/** Names with their values, in two columns. */

export function FactList({facts}: {facts: [string, string][]}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}
