import { View } from '../parts/card.tsx';

export function Policies() {
  return <View title="Policies">Placeholder</View>;
}
