package cohort

// add makes the mean that of the first values, and then an exponential average of the last
// few dozen.
func (m *Mean) add(x float64) {
	m.N = min(m.N+1, 16)
	m.Value += (x - m.Value) / float64(m.N)
}

const (
	perMembers = 32
	perRows    = 256
	forgetting = 0.98
	uncertain  = 100 // initial variance of each weight
)

// learn estimates seconds = a + b·members + c·rows by recursive least squares. The
// regressors are scaled to similar sizes.
func (m *KindState) learn(members, rows int, seconds float64) {
	if m.Costs == 0 {
		for i := range m.Cov {
			m.Cov[i][i] = uncertain
		}
	}
	m.Costs++
	x := [3]float64{1, float64(members) / perMembers, float64(rows) / perRows}
	var px [3]float64
	scale, miss := forgetting, seconds
	for i := range x {
		for j := range x {
			px[i] += m.Cov[i][j] * x[j]
		}
	}
	for i := range x {
		scale += x[i] * px[i]
		miss -= x[i] * m.Weight[i]
	}
	for i := range x {
		m.Weight[i] += px[i] / scale * miss
	}
	forget := 1.0
	if m.Cov[0][0]+m.Cov[1][1]+m.Cov[2][2] < uncertain { // else the variance could grow without bound
		forget = forgetting
	}
	for i := range x {
		for j := range x {
			m.Cov[i][j] = (m.Cov[i][j] - px[i]*px[j]/scale) / forget
		}
	}
}

// coefficients returns a, b and c, which are not negative.
func (m *KindState) coefficients() (a, b, perRow float64) {
	return max(0, m.Weight[0]), max(0, m.Weight[1]/perMembers), max(0, m.Weight[2]/perRows)
}
