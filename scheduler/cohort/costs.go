package cohort

// An average follows a quantity: the mean of the first values, and then an exponential
// average of the last few dozen.
type average struct {
	value float64
	n     int
}

func (a *average) add(x float64) {
	a.n = min(a.n+1, 16)
	a.value += (x - a.value) / float64(a.n)
}

// costs estimates seconds = a + b·members + c·rows by recursive least squares. The
// regressors are scaled to similar sizes.
type costs struct {
	n      int
	weight [3]float64
	cov    [3][3]float64
}

const (
	perMembers = 32
	perRows    = 256
	forgetting = 0.98
	uncertain  = 100 // initial variance of each weight
)

func (c *costs) learn(members, rows int, seconds float64) {
	if c.n == 0 {
		for i := range c.cov {
			c.cov[i][i] = uncertain
		}
	}
	c.n++
	x := [3]float64{1, float64(members) / perMembers, float64(rows) / perRows}
	var px [3]float64
	scale, miss := forgetting, seconds
	for i := range x {
		for j := range x {
			px[i] += c.cov[i][j] * x[j]
		}
	}
	for i := range x {
		scale += x[i] * px[i]
		miss -= x[i] * c.weight[i]
	}
	for i := range x {
		c.weight[i] += px[i] / scale * miss
	}
	forget := 1.0
	if c.cov[0][0]+c.cov[1][1]+c.cov[2][2] < uncertain { // else the variance could grow without bound
		forget = forgetting
	}
	for i := range x {
		for j := range x {
			c.cov[i][j] = (c.cov[i][j] - px[i]*px[j]/scale) / forget
		}
	}
}

// coefficients returns a, b and c, which are not negative.
func (c *costs) coefficients() (a, b, perRow float64) {
	return max(0, c.weight[0]), max(0, c.weight[1]/perMembers), max(0, c.weight[2]/perRows)
}
